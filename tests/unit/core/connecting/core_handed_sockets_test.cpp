// Connections over sockets that the program has connected: of TCP, Unix and socketpair(), blocking
// or not, with bytes read ahead; and what is no such socket.
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "authentication/secret_key.hpp"
#include "bootstrap/proof.hpp"
#include "core_fault.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::RawSocket;
using test::says;
using test::small_config;

Deadline soon() { return Deadline::after(30s); }

// Two descriptors, which a connection or the test closes.
struct Ends {
    int one = -1, other = -1;
};
Ends unix_ends(int type = SOCK_STREAM) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    return {ends[0], ends[1]};
}
Ends tcp_ends() {
    const RawSocket listener;
    sockaddr_in at = RawSocket::address(0);
    socklen_t bytes = sizeof at;
    EXPECT_EQ(bind(listener.fd(), reinterpret_cast<const sockaddr*>(&at), bytes), 0);
    EXPECT_EQ(listen(listener.fd(), 1), 0);
    EXPECT_EQ(getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    const int calling = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(calling, reinterpret_cast<const sockaddr*>(&at), bytes), 0);
    return {calling, accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC)};
}
bool is_open(int file) { return fcntl(file, F_GETFD) >= 0; }

struct Joined {
    explicit Joined(Ends ends, const Config& config = small_config())
        : calling(config), listening(config) {
        std::thread accepting([&] {
            listener.emplace(listening.connect_over({ends.other, SocketSide::listener}));
        });
        caller.emplace(calling.connect_over({ends.one, SocketSide::caller}));
        accepting.join();
    }
    Context calling, listening;
    std::optional<Connection> caller, listener;
};

TEST(HandedSockets, of_each_kind_become_connections) {
    for (const Ends ends : {unix_ends(), tcp_ends()}) {
        Joined joined(ends);
        test::expect_usable(*joined.caller, *joined.listener);
        test::expect_usable(*joined.listener, *joined.caller);
        EXPECT_NE(fcntl(ends.one, F_GETFD) & FD_CLOEXEC, 0);
        joined.caller.reset();
        EXPECT_FALSE(is_open(ends.one)) << "it went with the connection";
        const Deadline deadline = soon();
        while (joined.listener->progress() == Errc::ok && !deadline.passed())
            joined.listener->pause(0, deadline);
        EXPECT_TRUE(joined.listener->peer_closed());
    }
}

// Flags belong to all copies of a descriptor: the program may have others.
TEST(HandedSockets, keep_their_blocking_mode) {
    for (const int flag : {0, O_NONBLOCK}) {
        const Ends ends = unix_ends();
        const int copy = fcntl(ends.one, F_DUPFD_CLOEXEC, 0);
        ASSERT_EQ(fcntl(copy, F_SETFL, flag), 0);
        {
            Joined joined(ends);
            test::expect_usable(*joined.caller, *joined.listener);
            EXPECT_EQ(fcntl(copy, F_GETFL) & O_NONBLOCK, flag);
        }
        close(copy);
    }
}

TEST(HandedSockets, that_are_none_stay_the_programs) {
    Context context(small_config());
    const auto expect = [&](int file, const std::string& part) {
        const bool was_open = is_open(file);
        const Error error = error_of([&] { context.connect_over({file, SocketSide::caller}); });
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        says(error, part);
        EXPECT_EQ(is_open(file), was_open);
    };
    expect(-1, "it is no socket");
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    expect(pipes[0], "it is no socket");
    close(pipes[0]);
    close(pipes[1]);
    const Ends datagrams = unix_ends(SOCK_DGRAM), packets = unix_ends(SOCK_SEQPACKET);
    for (const Ends ends : {datagrams, packets}) {
        expect(ends.one, "it is no stream socket");
        close(ends.one);
        close(ends.other);
    }
    const RawSocket alone;
    expect(alone.fd(), "it is not connected");
    ASSERT_EQ(listen(alone.fd(), 1), 0);
    expect(alone.fd(), "it listens");
    Context other(small_config());
    const Ends ends = unix_ends();
    EXPECT_EQ(error_of([&] {
                  context.connect_over({ends.one, SocketSide::caller}, other.lane());
              }).code(),
              Errc::invalid_argument);
    EXPECT_TRUE(is_open(ends.one));
    close(ends.one);
    close(ends.other);
}

TEST(HandedSockets, are_closed_when_the_handshake_fails) {
    Config config = small_config();
    config.connect.timeout = 200ms;
    Context context(config);
    for (const SocketSide side : {SocketSide::caller, SocketSide::listener}) {
        const Ends silent = unix_ends();
        EXPECT_EQ(error_of([&] {
                      context.connect_over({silent.one, side});
                  }).code(),
                  Errc::timeout);
        EXPECT_FALSE(is_open(silent.one));
        close(silent.other);
        const Ends gone = unix_ends();
        close(gone.other);
        (void)error_of([&] { context.connect_over({gone.one, side}); });
        EXPECT_FALSE(is_open(gone.one));
    }
}

// Bytes of the program's own protocol, where a hello should be.
TEST(HandedSockets, with_data_of_the_program_under_way_say_what_came) {
    const Ends ends = unix_ends();
    const RawSocket peer(ends.other);
    ASSERT_TRUE(peer.put("GET / HTTP/1.1\r\n"));
    Context context(small_config());
    const Error error = error_of([&] { context.connect_over({ends.one, SocketSide::listener}); });
    EXPECT_EQ(error.code(), Errc::protocol_error);
    says(error, "it began with \"GET / HTTP");
}

// A program that reads by a buffer has taken some of the caller's hello with its own last line.
TEST(HandedSockets, lose_no_bytes_that_the_program_has_read_ahead) {
    for (const std::size_t taken : {std::size_t{1}, std::size_t{24}, std::size_t{100}}) {
        const Ends ends = unix_ends();
        Context calling(small_config()), listening(small_config());
        std::optional<Connection> caller;
        std::thread thread([&] { caller.emplace(calling.connect_over({ends.one})); });
        std::vector<std::byte> ahead(taken);
        ASSERT_EQ(recv(ends.other, ahead.data(), taken, MSG_WAITALL), static_cast<ssize_t>(taken));
        Connection listener = listening.connect_over({ends.other, SocketSide::listener, ahead});
        thread.join();
        test::expect_usable(*caller, listener);
    }
}

TEST(HandedSockets, prove_a_key_as_others_do) {
    const int key = memfd_create("key", MFD_CLOEXEC);
    ASSERT_EQ(write(key, std::string(62, 'c').append("12").data(), 64), 64);
    ASSERT_EQ(fchmod(key, 0600), 0);
    Config config = small_config();
    config.connect.key_file = "/proc/self/fd/" + std::to_string(key);
    for (const Ends ends : {unix_ends(), tcp_ends()}) {
        Joined joined(ends, config);
        test::expect_usable(*joined.caller, *joined.listener);
    }
    const Ends ends = unix_ends();
    Context with(config), without(small_config());
    std::thread thread([&] {
        EXPECT_EQ(error_of([&] {
                      with.connect_over({ends.other, SocketSide::listener});
                  }).code(),
                  Errc::permission_denied);
    });
    EXPECT_EQ(error_of([&] { without.connect_over({ends.one}); }).code(), Errc::permission_denied);
    thread.join();
    close(key);
}

TEST(HandedSockets, join_two_processes) {
    const Ends ends = unix_ends();
    softnic::test::Child asking([&](softnic::test::Wire&) {
        Context context(small_config());
        Connection connection = context.connect_over({ends.one});
        connection.send_message(1, {}, {}, soon());
        return connection.receive_message(soon()).channel() == 2 ? 0 : 1;
    });
    close(ends.one);
    Context context(small_config());
    Connection connection = context.connect_over({ends.other, SocketSide::listener});
    EXPECT_EQ(connection.peer_name(), "a Unix socket (process " + std::to_string(getpid()) + ")");
    (void)connection.receive_message(soon());
    connection.send_message(2, {}, {}, soon());
    EXPECT_EQ(asking.reap(), 0);
}

}  // namespace
}  // namespace verbatim
