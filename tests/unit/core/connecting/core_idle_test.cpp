// Connections that are idle for [connect] idle_timeout, and those that are not; and what the kernel
// is asked to do about peers that are silent.
#include <net/if.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <fstream>

#include "core_fault.hpp"
#include "lane/idle.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::ConnectedPair;
using test::error_of;
using test::says;
using test::small_config;

Deadline soon() { return Deadline::after(30s); }

Config idle_after(std::chrono::milliseconds time) {
    Config config = small_config();
    config.connect.idle_timeout = time;
    return config;
}

TEST(IdleWatch, counts_from_the_last_change) {
    const Clock::time_point start = Clock::now();
    IdleWatch watch;
    EXPECT_FALSE(watch.is_idle(7, start, 10ms)) << "it begins";
    EXPECT_FALSE(watch.is_idle(7, start + 9ms, 10ms));
    EXPECT_TRUE(watch.is_idle(7, start + 10ms, 10ms));
    EXPECT_FALSE(watch.is_idle(8, start + 11ms, 10ms));
    EXPECT_FALSE(watch.is_idle(8, start + 20ms, 10ms));
    watch.overlook(9);
    EXPECT_TRUE(watch.is_idle(9, start + 21ms, 10ms));
}

TEST(IdleConnections, are_closed_and_say_why_while_their_peers_hear_a_close) {
    ConnectedPair pair(small_config(), idle_after(50ms));
    int told = 0;
    Errc state = Errc::ok;
    pair.receiver->on_end([&](Connection& ended) {
        ++told;
        state = ended.state();
    });
    test::expect_usable(*pair.sender, *pair.receiver);
    const Deadline deadline = soon();
    while (pair.receiver->progress() == Errc::ok && !deadline.passed())
        pair.receiver->pause(0, deadline);
    while (told == 0 && !deadline.passed()) (void)pair.receiver->lane().poll();
    EXPECT_EQ(told, 1);
    EXPECT_EQ(state, Errc::idle);
    EXPECT_FALSE(pair.receiver->peer_closed());
    const Error error = error_of([&] { pair.receiver->check(); });
    EXPECT_EQ(error.code(), Errc::idle);
    says(error, "idle_timeout of [connect]");
    EXPECT_EQ(pair.receiver->try_send(1, {}), Errc::idle);
    while (pair.sender->progress() == Errc::ok && !deadline.passed())
        pair.sender->pause(0, deadline);
    EXPECT_TRUE(pair.sender->peer_closed()) << "it was a regular close";
    EXPECT_TRUE(pair.sender->peer_took_all());
}

// A lane that sleeps wakes for it; nothing else happens there.
TEST(IdleConnections, are_closed_by_a_lane_that_sleeps) {
    for (const LaneMode mode : {LaneMode::event, LaneMode::adaptive}) {
        Config config = idle_after(100ms);
        config.lane.mode = mode;
        ConnectedPair pair(small_config(), config);
        const Deadline deadline = soon();
        while (pair.receiver->state() == Errc::ok && !deadline.passed())
            (void)pair.receiver->lane().wait(deadline);
        EXPECT_EQ(pair.receiver->state(), Errc::idle);
    }
}

// The watch may look only while the other thread is not too slow: whatever ends, it is not this.
TEST(IdleConnections, are_those_without_messages_either_way) {
    ConnectedPair pair(small_config(), idle_after(1500ms));
    const Deadline until = Deadline::after(2500ms), deadline = soon();
    Clock::duration longest{};
    auto last = Clock::now();
    for (int i = 0; !until.passed(); ++i) {  // one direction, then the other
        Connection &from = i % 2 == 0 ? *pair.sender : *pair.receiver,
                   &to = i % 2 == 0 ? *pair.receiver : *pair.sender;
        longest = std::max(longest, Clock::now() - last);
        if (longest > 1s) GTEST_SKIP() << "this machine is too busy";
        last = Clock::now();
        from.send_message(1, {}, {}, deadline);
        (void)to.receive_message(deadline);
    }
    EXPECT_EQ(pair.receiver->progress(), Errc::ok);
}

TEST(IdleConnections, are_none_where_the_program_has_not_taken_what_came) {
    ConnectedPair pair(small_config(), idle_after(20ms));
    pair.sender->send_message(1, {}, {}, soon());
    const Deadline until = Deadline::after(200ms);
    while (!until.passed()) ASSERT_EQ(pair.receiver->progress(), Errc::ok);
    const Message message = pair.receiver->receive_message(soon());
    const Deadline later = Deadline::after(200ms);
    while (!later.passed()) ASSERT_EQ(pair.receiver->progress(), Errc::ok) << "it is held";
}

TEST(IdleConnections, are_none_while_a_sender_has_messages_that_wait_for_room) {
    Config small = small_config();
    small.ring.bytes = 4096;
    ConnectedPair pair(idle_after(20ms), small);
    Sender sender = pair.sender->sender();
    const std::string text(500, 's');
    const auto bytes = std::as_bytes(std::span(text));
    // More than the ring has room for.
    for (int i = 0; i < 40; ++i) ASSERT_EQ(sender.try_send(1, bytes), Errc::ok);
    const Deadline until = Deadline::after(200ms);
    while (!until.passed()) ASSERT_EQ(pair.sender->progress(), Errc::ok);
    const Deadline deadline = soon();
    for (int i = 0; i < 40; ++i) {
        Message message;
        while (pair.receiver->try_receive(message) != Errc::ok) {
            ASSERT_FALSE(deadline.passed());
            (void)pair.receiver->progress();
            (void)pair.sender->progress();
        }
    }
}

TEST(IdleConnections, are_none_while_memory_is_lent) {
    ConnectedPair pair(small_config(), idle_after(20ms));
    auto* const page = static_cast<std::byte*>(pair.receiver->receive_arena().allocate(4096, 4096));
    {
        const Grant grant(*pair.receiver, {page, 4096}, Access::remote_write);
        const Deadline until = Deadline::after(200ms);
        while (!until.passed()) ASSERT_EQ(pair.receiver->progress(), Errc::ok);
    }
    const Deadline deadline = soon();
    while (pair.receiver->progress() == Errc::ok && !deadline.passed()) {
    }
    EXPECT_EQ(pair.receiver->state(), Errc::idle);
}

TEST(IdleConnections, of_pollers_end_by_themselves) {
    Config config = idle_after(50ms);
    config.pollers.push_back({.name = "one", .mode = LaneMode::event});
    Context serving(config), calling(small_config());
    std::atomic<int> ended = 0;
    Listener listener = serving.listen("127.0.0.1:0");
    listener.serve(serving.pollers(), [&](Connection& connection) {
        connection.on_end([&](Connection& one) { ended += one.state() == Errc::idle; });
    });
    Connection connection = calling.connect(test::local(listener.port()));
    const Deadline deadline = soon();
    while (connection.progress() == Errc::ok && !deadline.passed()) connection.pause(0, deadline);
    EXPECT_TRUE(connection.peer_closed());
    while (ended == 0 && !deadline.passed()) std::this_thread::yield();
    EXPECT_EQ(ended, 1);
}

// ---- machines that vanish ----

int option_of(int file, int level, int name) {
    int value = -1;
    socklen_t bytes = sizeof value;
    return getsockopt(file, level, name, &value, &bytes) == 0 ? value : -1;
}

// The TCP sockets of this process that are connected.
std::vector<int> streams() {
    std::vector<int> found;
    for (int file = 3; file < 1024; ++file) {
        sockaddr_storage peer{};
        socklen_t bytes = sizeof peer;
        if (getpeername(file, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
            peer.ss_family == AF_INET && option_of(file, SOL_SOCKET, SO_TYPE) == SOCK_STREAM)
            found.push_back(file);
    }
    return found;
}

TEST(KeepAlive, is_what_the_kernel_is_asked_for_on_both_sides) {
    if (std::getenv("VERBATIM_TEST_PORT") != nullptr) GTEST_SKIP() << "streams have sockets, too";
    for (const int seconds : {0, 1, 7}) {
        Config config = small_config();
        config.connect.keep_alive = std::chrono::seconds(seconds);
        const ConnectedPair pair(config, config);
        const std::vector<int> files = streams();
        ASSERT_EQ(files.size(), 2u);
        for (const int file : files) {
            EXPECT_EQ(option_of(file, SOL_SOCKET, SO_KEEPALIVE), seconds != 0);
            if (seconds == 0) continue;
            EXPECT_EQ(option_of(file, IPPROTO_TCP, TCP_KEEPIDLE), seconds);
            EXPECT_EQ(option_of(file, IPPROTO_TCP, TCP_KEEPINTVL), seconds);
            EXPECT_EQ(option_of(file, IPPROTO_TCP, TCP_KEEPCNT), 3);
            EXPECT_EQ(option_of(file, IPPROTO_TCP, TCP_USER_TIMEOUT), seconds * 4000);
        }
    }
}

// The network between two ends goes away, in a network namespace of this test.
void set_loopback(bool up) {
    const test::RawSocket socket;
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    EXPECT_EQ(ioctl(socket.fd(), SIOCGIFFLAGS, &request), 0);
    request.ifr_flags =
        static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    EXPECT_EQ(ioctl(socket.fd(), SIOCSIFFLAGS, &request), 0);
}

int run_without_network(softnic::test::Wire& wire) {
    if (unshare(CLONE_NEWNET) != 0) return 77;
    set_loopback(true);
    Config config = small_config();
    config.softnic.port = "shm";
    config.connect.keep_alive = 1s;
    ConnectedPair pair(config, config);
    test::expect_usable(*pair.sender, *pair.receiver);
    set_loopback(false);
    wire.signal();
    const Deadline deadline = soon();
    while (pair.sender->progress() == Errc::ok && !deadline.passed())
        pair.sender->pause(0, deadline);
    return pair.sender->state() == Errc::peer_lost && !pair.sender->peer_closed() ? 0 : 1;
}

TEST(KeepAlive, notices_that_the_peers_machine_can_no_longer_be_reached) {
    softnic::test::Child alone(run_without_network);
    const int code = alone.reap();
    if (code == 77) GTEST_SKIP() << "no network namespace may be made here";
    EXPECT_EQ(code, 0);
}

// A peer whose process is stopped is not dead: its kernel answers.
TEST(KeepAlive, leaves_a_peer_that_is_stopped_alone) {
    Config config = small_config();
    config.connect.keep_alive = 1s;
    softnic::test::Child stopped([&](softnic::test::Wire& wire) {
        Context context(config);
        Listener listener = context.listen("127.0.0.1:0");
        wire.put(listener.port());
        Connection connection = listener.accept(soon());
        connection.send_message(1, {}, {}, soon());
        (void)connection.receive_message(soon());
        connection.send_message(2, {}, {}, soon());
        return connection.receive_message(soon()).channel() == 3 ? 0 : 1;
    });
    std::uint16_t port = 0;
    ASSERT_TRUE(stopped.wire().get(port));
    Context context(config);
    Connection connection = context.connect(test::local(port));
    (void)connection.receive_message(soon());
    stopped.kill(SIGSTOP);
    const Deadline until = Deadline::after(5s);  // more than the four of the limit
    while (!until.passed()) {
        ASSERT_EQ(connection.progress(), Errc::ok);
        connection.pause(1000, until);
    }
    stopped.kill(SIGCONT);
    connection.send_message(1, {}, {}, soon());
    (void)connection.receive_message(soon());
    connection.send_message(3, {}, {}, soon());
    EXPECT_EQ(stopped.reap(), 0);
}

}  // namespace
}  // namespace verbatim
