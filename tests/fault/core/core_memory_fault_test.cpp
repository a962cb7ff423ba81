// Memory and rights that are missing: hugepages, memlock, /dev/shm, addresses, a common user. Each
// in a child of its own, because limits and users cannot be given back.
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>

#include <verbatim/objects.hpp>

#include "core_fault.hpp"
#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using test::error_of;
using test::kSanitized;
using test::local;
using test::says;

constexpr uid_t kNobody = 65534;
constexpr int kSkipped = 77;

Deadline soon() { return Deadline::after(20s); }

// Runs `body` in a child; it reports by EXPECT and returns 0, or kSkipped.
template <class Body>
void in_child(Body body) {
    Child child([&](Wire&) {
        setvbuf(stdout, nullptr, _IONBF, 0);  // a child's exit flushes nothing
        const int code = body();
        return testing::Test::HasFailure() ? 1 : code;
    });
    const int code = child.reap();
    if (code == kSkipped) GTEST_SKIP() << "this sandbox does not allow the set-up";
    EXPECT_EQ(code, 0);
}

// Two contexts of this process exchange a message and a graph.
void expect_works(const Config& config) {
    test::ConnectedPair pair(config, config);
    test::expect_usable(*pair.sender, *pair.receiver);
}

std::uint64_t free_huge_pages() {
    std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    std::uint64_t free = 0;
    file >> free;
    return free;
}

TEST(NoHugepages, automatic_choice_works_with_one_warning_that_says_what_to_run) {
    if (free_huge_pages() > 0) GTEST_SKIP() << "this machine has hugepages";
    in_child([] {
        test::CapturedLog log;
        Config config = test::small_config();
        config.arena.pages = config.receive_arena.pages = PageChoice::automatic;
        expect_works(config);
        const std::string text = log.text();
        EXPECT_EQ(test::count_of(text, "warning"), 1u) << text;
        EXPECT_EQ(test::count_of(text, "sysctl -w vm.nr_hugepages="), 1u) << text;
        return 0;
    });
}

TEST(NoHugepages, a_demand_for_them_is_an_error_with_counts_and_the_command) {
    Config config = test::small_config();
    config.arena.pages = PageChoice::huge_2m;
    config.arena.max_bytes = config.arena.initial_bytes = (free_huge_pages() + 8) << 21;
    const Error error = error_of([&] { Context context(config); });
    EXPECT_EQ(error.code(), Errc::out_of_memory);
    says(error, "hugepages: wanted " + std::to_string(free_huge_pages() + 8));
    says(error, "free " + std::to_string(free_huge_pages()));
    says(error, "run: sysctl -w vm.nr_hugepages=");
}

int become_nobody() {
    if (geteuid() != 0) return 0;
    return setgid(kNobody) == 0 && setuid(kNobody) == 0 ? 0 : -1;
}

TEST(LowMemlock, stops_only_who_wants_locked_memory_and_names_the_limit) {
    in_child([] {
        const rlimit low{64 << 10, 64 << 10};
        if (setrlimit(RLIMIT_MEMLOCK, &low) != 0 || become_nobody() != 0) return kSkipped;
        expect_works(test::small_config());
        if (kSanitized) return 0;  // they let mlock() do nothing
        Config config = test::small_config();
        config.arena.lock_memory = true;
        config.arena.initial_bytes = config.arena.segment_bytes;
        const Error error = error_of([&] { Context context(config); });
        EXPECT_EQ(error.code(), Errc::permission_denied);
        says(error, "RLIMIT_MEMLOCK is 65536 bytes");
        says(error, "ulimit -l");
        says(error, "lock_memory = false");
        return 0;
    });
}

TEST(TinySharedMemoryMount, is_never_used) {
    in_child([] {
        if (unshare(CLONE_NEWNS | (geteuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
            mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("none", "/dev/shm", "tmpfs", 0, "size=4096") != 0)
            return kSkipped;
        expect_works(test::small_config());
        return 0;
    });
}

TEST(FewAddresses, are_an_error_that_names_the_limit) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers need terabytes of addresses; runs in every other build";
    in_child([] {
        const rlimit low{std::size_t{1} << 30, std::size_t{1} << 30};
        if (setrlimit(RLIMIT_AS, &low) != 0) return kSkipped;
        Config config = test::small_config();
        config.arena.max_bytes = std::size_t{4} << 30;
        const Error error = error_of([&] { Context context(config); });
        EXPECT_EQ(error.code(), Errc::out_of_memory);
        says(error, "cannot reserve");
        says(error, "ulimit -v");
        config.arena.max_bytes = config.receive_arena.max_bytes = std::size_t{64} << 20;
        expect_works(config);
        return 0;
    });
}

// One limit below what the NIC needs for itself, one below the arenas: both would end the process
// by SIGXFSZ if it just went on.
TEST(FileSizeLimit, is_an_error_that_names_it_and_not_the_end_of_the_process) {
    in_child([] {
        rlimit limit{};
        getrlimit(RLIMIT_FSIZE, &limit);
        const rlim_t before = limit.rlim_cur;
        for (const rlim_t bytes : {rlim_t{4096}, rlim_t{64} << 20}) {
            limit.rlim_cur = bytes;
            if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return kSkipped;
            Config config = test::small_config();
            config.arena.initial_bytes = config.arena.segment_bytes;
            const Error error = error_of([&] { Context context(config); });
            EXPECT_EQ(error.code(), Errc::out_of_memory);
            says(error, "RLIMIT_FSIZE");
            says(error, std::to_string(bytes) + " bytes");
            says(error, "ulimit -f unlimited");
        }
        limit.rlim_cur = before;
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return kSkipped;
        expect_works(test::small_config());
        return 0;
    });
}

// The arenas of a peer are mapped whole: they can be too much for a process whose own are small.
TEST(FewAddresses, for_the_arena_of_a_peer_end_that_connection_with_the_reason) {
    if (kSanitized)
        GTEST_SKIP() << "sanitizers need terabytes of addresses; runs in every other build";
    Child child([](Wire& wire) {
        std::uint16_t port = 0;
        const rlimit low{std::size_t{1} << 30, std::size_t{1} << 30};
        if (!wire.get(port) || setrlimit(RLIMIT_AS, &low) != 0) return 90;
        test::CapturedLog log;
        Config config = test::small_config();
        config.arena.max_bytes = config.receive_arena.max_bytes = std::size_t{64} << 20;
        Context context(config);
        Connection connection = context.connect(local(port));
        const Error error =
            error_of([&] { send(connection, std::vector<int>(100'000), {soon()}); });
        const std::string logged = log.text();
        EXPECT_NE(logged.find("ulimit -v"), std::string::npos) << logged;
        return says(error, "cannot be mapped here (the log says why)") &&
                       !testing::Test::HasFailure()
                   ? 0
                   : 1;
    });
    Config large = test::small_config();
    large.receive_arena.max_bytes = std::size_t{4} << 30;
    Context context(large), sending(test::small_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection from_child = listener.accept(soon());
    const Error error = error_of([&] { receive<std::vector<int>>(from_child, {soon()}); });
    EXPECT_EQ(error.code(), Errc::peer_lost);
    EXPECT_EQ(child.reap(), 0);
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    Connection good = sending.connect(local(listener.port()));
    accepting.join();
    test::expect_usable(good, *accepted);
}

// What this process' files of rings and mirrors hold.
std::uintmax_t bytes_of_rings() {
    std::uintmax_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string name = std::filesystem::read_symlink(entry.path(), gone).string();
        struct stat status {};
        if (name.starts_with("/memfd:verbatim:message") && stat(entry.path().c_str(), &status) == 0)
            bytes += static_cast<std::uintmax_t>(status.st_blocks) * 512;
    }
    return bytes;
}

// The peer maps them and must not make their pages present either.
TEST(Rings, of_a_connection_with_few_messages_hold_few_pages) {
    Child child([](Wire& wire) {
        std::uint16_t port = 0;
        if (!wire.get(port)) return 90;
        Context context(test::small_config());
        Connection connection = context.connect(local(port));
        connection.send_message(1, std::as_bytes(std::span("hello")), {}, soon());
        return connection.receive_message(soon()).channel() == 2 ? 0 : 1;
    });
    Context context(test::small_config());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    Connection from_child = listener.accept(soon());
    EXPECT_EQ(from_child.receive_message(soon()).channel(), 1);
    EXPECT_LE(bytes_of_rings(), 65536);
    from_child.send_message(2, std::as_bytes(std::span("hello")), {}, soon());
    EXPECT_EQ(child.reap(), 0);
}

// Takes all descriptors that the process may still open.
std::vector<int> take_all_descriptors() {
    std::vector<int> taken;
    for (int fd = dup(STDERR_FILENO); fd >= 0; fd = dup(STDERR_FILENO)) taken.push_back(fd);
    return taken;
}

std::chrono::nanoseconds cpu_time() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(NoDescriptors, make_callers_wait_without_spinning_until_there_are_some_again) {
    // UBSan looks at memory through a pipe before it believes a pointer to an object.
    if (kSanitized) GTEST_SKIP() << "sanitizers need descriptors; runs in every other build";
    in_child([] {
        const rlimit few{128, 128};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) return kSkipped;
        test::CapturedLog log;
        Context context(test::small_config()), sending(test::small_config());
        Listener listener = context.listen("127.0.0.1:0");
        const test::RawSocket caller = test::RawSocket::connected(listener.port());
        const std::vector<int> taken = take_all_descriptors();
        const auto before = cpu_time();
        const Error error = error_of([&] { listener.accept(Deadline::after(500ms)); });
        EXPECT_EQ(error.code(), Errc::timeout);
        EXPECT_LT(cpu_time() - before, 250ms) << "it spun";
        for (const int fd : taken) close(fd);
        std::optional<Connection> accepted;
        std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
        Connection good = sending.connect(local(listener.port()));
        accepting.join();
        test::expect_usable(good, *accepted);
        const std::string text = log.text();
        EXPECT_EQ(test::count_of(text, "callers cannot be taken"), 1u) << text;
        EXPECT_EQ(test::count_of(text, "ulimit -n"), 1u) << text;
        return 0;
    });
}

TEST(FullArena, refuses_a_graph_and_takes_the_next) {
    Config config = test::small_config();
    config.receive_arena.max_bytes = config.receive_arena.segment_bytes;
    test::ConnectedPair pair(test::small_config(), config);
    const std::vector<std::vector<std::uint64_t>> large(64, std::vector<std::uint64_t>(64 << 10));
    auto sent = std::async(std::launch::async, [&] {
        return error_of([&] { send(*pair.sender, large, {soon()}); }).code();
    });
    const Error error = error_of(
        [&] { receive<std::vector<std::vector<std::uint64_t>>>(*pair.receiver, {soon()}); });
    EXPECT_EQ(error.code(), Errc::graph_too_large);
    EXPECT_EQ(sent.get(), Errc::graph_too_large);
    says(error, "receive_arena");
    says(error, "max_bytes");
    test::expect_usable(*pair.sender, *pair.receiver);
}

// Graphs and messages need no right to look into another process.
TEST(NoPtrace, graphs_cross_all_the_same) {
    Child child([](Wire& wire) {
        std::uint16_t port = 0;
        if (!wire.get(port) || become_nobody() != 0) return 90;
        prctl(PR_SET_DUMPABLE, 0);
        Context context(test::small_config());
        Connection connection = context.connect(local(port));
        const auto graph = receive<std::vector<std::string>>(connection, {soon()});
        return graph->size() == 3 ? 0 : 1;
    });
    Child parent([&](Wire& wire) {
        if (become_nobody() != 0) return 90;
        prctl(PR_SET_DUMPABLE, 0);
        Context context(test::small_config());
        Listener listener = context.listen("127.0.0.1:0");
        if (!wire.put(listener.port())) return 91;
        Connection connection = listener.accept(soon());
        const std::vector<std::string> graph(3, std::string(100, 'x'));
        send(connection, graph, {soon()});
        return 0;
    });
    std::uint16_t port = 0;
    ASSERT_TRUE(parent.wire().get(port));
    ASSERT_TRUE(child.wire().put(port));
    EXPECT_EQ(child.reap(), 0);
    EXPECT_EQ(parent.reap(), 0);
}

// Other users are reached by TCP, unless that is not offered.
Config sharing_only() {
    Config config = test::small_config();
    config.softnic.port = "shm";
    return config;
}

TEST(AnotherUser, is_refused_by_name_and_keeps_no_one_else_out) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
    Child child([](Wire& wire) {
        std::uint16_t port = 0;
        if (!wire.get(port) || become_nobody() != 0) return 90;
        Context context(sharing_only());
        const Error error = error_of([&] { context.connect(local(port)); });
        // Who ends before the listener has looked may be gone instead of refused.
        if (error.code() != Errc::permission_denied || !wire.wait()) return 1;
        return says(error, "uid 0") && says(error, "uid 65534") && says(error, "same_user_only")
                   ? 0
                   : 2;
    });
    test::CapturedLog log;
    Context context(sharing_only()), sending(sharing_only());
    Listener listener = context.listen("127.0.0.1:0");
    ASSERT_TRUE(child.wire().put(listener.port()));
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    log.expect("uid 65534");
    log.expect("uid 0");
    EXPECT_TRUE(child.wire().signal());
    EXPECT_EQ(child.reap(), 0);
    Connection good = sending.connect(local(listener.port()));
    accepting.join();
    test::expect_usable(good, *accepted);
}

}  // namespace
}  // namespace verbatim
