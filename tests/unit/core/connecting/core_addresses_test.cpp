// Where contexts listen and connect: IPv4, IPv6, names, Unix paths and abstract names; socket files
// that are stale, in use, or something else.
#include <sys/stat.h>
#include <sys/un.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <list>

#include "bootstrap/address.hpp"
#include "bootstrap/unix_socket.hpp"
#include "core_fault.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using test::error_of;
using test::says;
using test::small_config;

Deadline soon() { return Deadline::after(30s); }

class Addresses : public testing::Test {
  protected:
    Addresses() {
        std::string name = fs::temp_directory_path() / "verbatim_unix.XXXXXX";
        directory_ = mkdtemp(name.data());
    }
    ~Addresses() override { fs::remove_all(directory_); }
    std::string path(const std::string& name = "socket") const { return directory_ / name; }
    fs::path directory_;
};

// `at`: with a %u for the port where it has one.
void expect_connection(const std::string& at, const std::string& from_port = {}) {
    Context listening(small_config()), calling(small_config());
    Listener listener = listening.listen(at + (from_port.empty() ? "" : ":0"));
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    const std::string to = from_port.empty() ? at : from_port + std::to_string(listener.port());
    Connection connection = calling.connect(to);
    accepting.join();
    test::expect_usable(connection, *accepted);
}

TEST_F(Addresses, of_each_kind_lead_to_a_listener) {
    expect_connection("127.0.0.1", "127.0.0.1:");
    expect_connection("localhost", "localhost:");
    expect_connection("unix:" + path());
    expect_connection("unix:@verbatim_test_" + std::to_string(getpid()));
}

TEST_F(Addresses, of_ipv6_lead_to_a_listener) {
    if (!fs::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this machine has no IPv6";
    std::ifstream file("/proc/net/if_inet6");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(" lo\n") == std::string::npos) GTEST_SKIP() << "no IPv6 loopback here";
    expect_connection("[::1]", "[::1]:");
}

// A name's first address may be the one where nobody listens.
TEST_F(Addresses, of_a_name_are_tried_in_turn) {
    Context listening(small_config()), calling(small_config());
    Listener listener = listening.listen("127.0.0.1:0");
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    Connection connection = calling.connect("localhost:" + std::to_string(listener.port()));
    accepting.join();
    test::expect_usable(connection, *accepted);
}

TEST_F(Addresses, of_unix_sockets_name_the_peers_process) {
    Context listening(small_config()), calling(small_config());
    Listener listener = listening.listen("unix:" + path());
    EXPECT_EQ(listener.port(), 0);
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    const Connection connection = calling.connect("unix:" + path());
    accepting.join();
    const std::string name = "unix:" + path() + " (process " + std::to_string(getpid()) + ")";
    EXPECT_EQ(connection.peer_name(), name);
    EXPECT_EQ(accepted->peer_name(), name);
}

TEST_F(Addresses, that_are_none_say_what_the_forms_are) {
    Context context(small_config());
    for (const std::string& text : std::vector<std::string>{"", "host", "unix:", "unix:@", "::1:7",
                                                            "host:port", ":7", "host:65536"}) {
        const Error error = error_of([&] { context.connect(text); });
        EXPECT_EQ(error.code(), Errc::invalid_argument) << text;
        says(error, "write ");
        EXPECT_EQ(error_of([&] { context.listen(text); }).code(), Errc::invalid_argument) << text;
    }
}

TEST_F(Addresses, of_paths_too_long_are_refused_with_their_length) {
    EXPECT_EQ(UnixName::parse(std::string(107, 'p')).socket().bytes, sizeof(sockaddr_un));
    EXPECT_EQ(UnixName::parse("@" + std::string(107, 'p')).socket().bytes, sizeof(sockaddr_un));
    Context context(small_config());
    for (const std::string& name : {std::string(108, 'p'), "@" + std::string(108, 'p')}) {
        const Error error = error_of([&] { context.listen("unix:" + name); });
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        says(error, "its path has 108 bytes, and a Unix socket takes 107 at most");
    }
    const Error error = error_of([&] { context.listen(std::string("unix:a\0b", 8)); });
    EXPECT_EQ(error.code(), Errc::invalid_argument);
}

TEST_F(Addresses, without_a_listener_say_what_to_start) {
    Context context(small_config());
    {
        const Error error = error_of([&] { context.connect("unix:" + path()); });
        EXPECT_EQ(error.code(), Errc::connection_refused);
        says(error, "start the receiver first, and check the path");
    }
    std::ofstream(path()) << "no socket";
    const Error error = error_of([&] { context.connect("unix:" + path()); });
    EXPECT_EQ(error.code(), Errc::connection_refused);
}

struct stat status_of(const std::string& path) {
    struct stat status {};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    return status;
}

TEST_F(Addresses, of_paths_have_a_file_for_the_owner_alone_while_there_is_a_listener) {
    Context context(small_config());
    const mode_t before = umask(0);
    {
        const Listener listener = context.listen("unix:" + path());
        EXPECT_EQ(status_of(path()).st_mode & 07777, 0600U);
        EXPECT_TRUE(S_ISSOCK(status_of(path()).st_mode));
    }
    umask(before);
    EXPECT_FALSE(fs::exists(path()));
}

// A socket file without a listener, as after a kill.
void leave_stale(const std::string& path) {
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto at = UnixName::parse(path).socket();
    EXPECT_EQ(bind(file, at.get(), at.bytes), 0);
    EXPECT_EQ(listen(file, 1), 0);
    close(file);
    EXPECT_TRUE(fs::exists(path));
}

TEST_F(Addresses, of_listeners_that_have_ended_without_removing_their_file_are_used_again) {
    leave_stale(path());
    expect_connection("unix:" + path());
    EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Addresses, in_use_stay_with_their_listener) {
    Context first(small_config()), second(small_config());
    Listener listener = first.listen("unix:" + path());
    const auto made = status_of(path()).st_ino;
    const Error error = error_of([&] { second.listen("unix:" + path()); });
    EXPECT_EQ(error.code(), Errc::device_error);
    says(error, "another program listens there");
    EXPECT_EQ(status_of(path()).st_ino, made);
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    Connection connection = second.connect("unix:" + path());
    accepting.join();
    test::expect_usable(connection, *accepted);
    const std::string abstract = "unix:@verbatim_use_" + std::to_string(getpid());
    const Listener other = first.listen(abstract);
    EXPECT_EQ(error_of([&] { second.listen(abstract); }).code(), Errc::device_error);
}

TEST_F(Addresses, of_what_is_no_socket_are_left_alone) {
    std::ofstream(path()) << "precious";
    Context context(small_config());
    const Error error = error_of([&] { context.listen("unix:" + path()); });
    EXPECT_EQ(error.code(), Errc::invalid_argument);
    says(error, "a file that is no socket is there");
    EXPECT_EQ(fs::file_size(path()), 8u);
    fs::create_directory(path("directory"));
    EXPECT_EQ(error_of([&] { context.listen("unix:" + path("directory")); }).code(),
              Errc::invalid_argument);
    // A link to a stale socket is no socket.
    leave_stale(path("stale"));
    fs::create_symlink(path("stale"), path("link"));
    EXPECT_EQ(error_of([&] { context.listen("unix:" + path("link")); }).code(),
              Errc::invalid_argument);
    EXPECT_TRUE(fs::exists(path("stale")));
}

TEST_F(Addresses, that_another_took_over_are_not_removed) {
    Context context(small_config());
    {
        const Listener listener = context.listen("unix:" + path());
        fs::rename(path(), path("aside"));
        std::ofstream(path()) << "another's";
    }
    EXPECT_TRUE(fs::exists(path()));
}

TEST_F(Addresses, of_a_listener_stay_when_a_forked_child_ends_its_copy) {
    std::optional<unix_socket::Bound> bound(unix_socket::listen(UnixName::parse(path())));
    softnic::test::Child child([&](softnic::test::Wire&) {
        bound.reset();
        return 0;
    });
    EXPECT_EQ(child.reap(), 0);
    UnixCall call(UnixName::parse(path()), soon());
    EXPECT_TRUE(call.go_on());
    bound.reset();
    EXPECT_FALSE(fs::exists(path()));
}

TEST_F(Addresses, in_directories_that_are_missing_are_refused) {
    Context context(small_config());
    const Error error = error_of([&] { context.listen("unix:" + path("none/socket")); });
    EXPECT_EQ(error.code(), Errc::device_error);
    says(error, "choose a path in a directory");
}

// Several at once for one stale file: one of them has it in the end, and can be reached.
TEST_F(Addresses, that_are_stale_are_taken_by_one_listener_of_many) {
    for (int round = 0; round < 100 && !HasFailure(); ++round) {
        leave_stale(path());
        std::atomic<int> listening = 0;
        std::list<unix_socket::Bound> bound;
        std::mutex mutex;
        std::barrier together(8);
        {
            std::list<std::jthread> threads;
            for (int i = 0; i < 8; ++i)
                threads.emplace_back([&] {
                    together.arrive_and_wait();
                    try {
                        auto one = unix_socket::listen(UnixName::parse(path()));
                        const std::lock_guard lock(mutex);
                        bound.push_back(std::move(one));
                        ++listening;
                    } catch (const Error& error) {
                        EXPECT_EQ(error.code(), Errc::device_error) << error.what();
                    }
                });
        }
        EXPECT_EQ(listening, 1);
        UnixCall call(UnixName::parse(path()), soon());
        EXPECT_TRUE(call.go_on());
        bound.clear();
        EXPECT_FALSE(fs::exists(path()));
    }
}

// A listener whose queue of callers is full refuses nobody: callers wait.
TEST_F(Addresses, of_unix_listeners_with_a_full_queue_are_waited_for) {
    const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto at = UnixName::parse(path()).socket();
    ASSERT_EQ(bind(file, at.get(), at.bytes), 0);
    ASSERT_EQ(listen(file, 0), 0);
    std::list<UnixCall> calls;
    while (calls.emplace_back(UnixName::parse(path()), soon()).go_on()) ASSERT_LT(calls.size(), 9u);
    EXPECT_LT(calls.back().wakes_at().when, soon().when);
    while (accept4(file, nullptr, nullptr, SOCK_CLOEXEC) >= 0 && !calls.back().go_on()) {
    }
    close(file);
    UnixCall late(UnixName::parse(path()), Deadline::after(0s));
    EXPECT_THROW(late.go_on(), Error);
}

TEST_F(Addresses, of_paths_join_two_processes) {
    const std::string at = "unix:" + path();
    softnic::test::Child asking([&](softnic::test::Wire& wire) {
        if (!wire.wait()) return 2;
        Context context(small_config());
        Connection connection = context.connect(at);
        connection.send_message(1, {}, {}, soon());
        return connection.receive_message(soon()).channel() == 2 ? 0 : 1;
    });
    Context context(small_config());
    Listener listener = context.listen(at);
    ASSERT_TRUE(asking.wire().signal());
    Connection connection = listener.accept(soon());
    (void)connection.receive_message(soon());
    connection.send_message(2, {}, {}, soon());
    EXPECT_EQ(asking.reap(), 0);
}

}  // namespace
}  // namespace verbatim
