// How the engine thread learns of doorbells that nobody calls it for: by traps where they are
// possible, by naps elsewhere. Threads are counted by how often they slept, not by time.
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../processes/child_process.hpp"
#include "raw_queues.hpp"

namespace verbatim::interop {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr const char* kVariable = "VERBATIM_SOFTNIC_DOORBELLS";

// How often this process's threads of that name have slept so far; -1: there is none.
long sleeps_of(const std::string& name) {
    long sum = -1;
    DIR* const threads = opendir("/proc/self/task");
    while (const dirent* const entry = readdir(threads)) {
        const std::string path = std::string("/proc/self/task/") + entry->d_name;
        std::string found, line;
        std::getline(std::ifstream(path + "/comm"), found);
        if (found != name) continue;
        constexpr std::string_view kKey = "voluntary_ctxt_switches:";
        for (std::ifstream status(path + "/status"); std::getline(status, line);)
            if (line.starts_with(kKey))
                sum = std::max(sum, 0L) + std::stol(line.substr(kKey.size()));
    }
    closedir(threads);
    return sum;
}

long engine_sleeps() {
    long sum = 0;
    for (const char* const name :
         {"verbatim-engine", "verbatim-trap", "verbatim-conn", "verbatim-ctl"})
        sum += std::max(sleeps_of(name), 0L);
    return sum;
}

// How often they sleep in half a second.
long sleeps_while_idle() {
    const long before = engine_sleeps();
    ::poll(nullptr, 0, 500);
    return engine_sleeps() - before;
}

bool traps_work() { return sleeps_of("verbatim-trap") >= 0; }

// Whatever was begun has come to its end.
bool becomes_quiet() {
    constexpr long kFew = 3;
    const auto deadline = Steady::now() + 30s;
    while (sleeps_while_idle() > kFew)
        if (Steady::now() > deadline) return false;
    return true;
}

struct Doorbells : testing::Test {
    ~Doorbells() override { unsetenv(kVariable); }
};

// Both ways.
struct BothWays : Doorbells, testing::WithParamInterface<const char*> {
    BothWays() { setenv(kVariable, GetParam(), 1); }
    static bool traps() { return std::string(GetParam()) == "trap"; }
    // Then traps are set, if there are any.
    static void expect_quiet() {
        if (!traps() || !traps_work()) return;
        EXPECT_TRUE(becomes_quiet());
    }
};
INSTANTIATE_TEST_SUITE_P(, BothWays, testing::Values("trap", "nap"),
                         [](const auto& of) { return std::string(of.param); });

TEST_P(BothWays, a_request_past_libibverbs_is_executed_though_the_engine_sleeps) {
    const Context context = open_device();
    RawQueues queues(context.get());
    expect_quiet();
    for (std::uint64_t value = 1; value <= 100; ++value) {
        queues.post_write(&queues.side.word(0), value);
        ASSERT_EQ(queues.await(), MLX5_CQE_REQ) << value;
        EXPECT_EQ(std::atomic_ref(queues.side.word(0)).load(), value);
    }
}

TEST_P(BothWays, requests_in_a_burst_are_all_executed) {
    const Context context = open_device();
    RawQueues queues(context.get());
    for (int burst = 0; burst < 50; ++burst) {
        for (int i = 0; i < 16; ++i) queues.post_write(&queues.side.word(0), 1);
        for (int i = 0; i < 16; ++i) ASSERT_EQ(queues.await(), MLX5_CQE_REQ) << burst;
    }
}

TEST_P(BothWays, an_idle_program_sleeps) {
    const Context context = open_device();
    RawQueues queues(context.get());
    queues.post_write(&queues.side.word(0), 1);
    ASSERT_EQ(queues.await(), MLX5_CQE_REQ);
    if (traps() && traps_work()) return expect_quiet();
    // Naps of 4 ms, after a second of shorter ones.
    ::poll(nullptr, 0, 1500);
    const long sleeps = sleeps_while_idle();
    EXPECT_LT(sleeps, 300);
    EXPECT_GT(sleeps, 5);
}

TEST_P(BothWays, a_queue_armed_past_libibverbs_has_its_event) {
    const Context context = open_device();
    RawQueues queues(context.get(), {.events = true});
    for (int round = 0; round < 20; ++round) {
        // In turn: armed before the completion, and after.
        if (round % 2 == 0) queues.arm();
        queues.post_write(&queues.side.word(0), 1);
        if (round % 2 == 1) {
            while (std::atomic_ref(queues.side.word(0)).load() != 1) std::this_thread::yield();
            queues.arm();
        }
        pollfd event{queues.side.channel->fd, POLLIN, 0};
        ASSERT_EQ(::poll(&event, 1, 10000), 1) << round;
        ibv_cq* queue = nullptr;
        void* owner = nullptr;
        ASSERT_EQ(ibv_get_cq_event(queues.side.channel.get(), &queue, &owner), 0);
        ibv_ack_cq_events(queue, 1);
        ASSERT_EQ(queues.await(), MLX5_CQE_REQ);
        std::atomic_ref(queues.side.word(0)).store(0);
    }
}

// Nothing tells of a receive but a word in ordinary memory.
TEST_P(BothWays, a_receive_posted_late_past_libibverbs_is_filled) {
    const Context context = open_device();
    RawQueues queues(context.get());
    for (std::uint64_t value = 1; value <= 3; ++value) {
        queues.post_send(value);
        ::poll(nullptr, 0, 50);
        EXPECT_EQ(queues.take(), -1);
        queues.post_receive(4096, 64);
        for (int i = 0; i < 2; ++i) EXPECT_GE(queues.await(), 0);
    }
    expect_quiet();
}

TEST_P(BothWays, waiting_for_a_receive_ends_although_both_sides_sleep) {
    const Context context = open_device();
    Side sender(context.get(), {.events = true}), receiver(context.get(), {.events = true});
    to_init(sender.pair.get()), to_init(receiver.pair.get());
    to_receive(sender.pair.get(), receiver.pair->qp_num);
    to_receive(receiver.pair.get(), sender.pair->qp_num);
    to_send(sender.pair.get(), 3), to_send(receiver.pair.get());
    ASSERT_EQ(ibv_req_notify_cq(sender.completions.get(), 0), 0);
    sender.request(IBV_WR_SEND, 0, 64).post(sender.pair.get());
    pollfd event{sender.channel->fd, POLLIN, 0};
    ASSERT_EQ(::poll(&event, 1, 10000), 1);
    EXPECT_EQ(sender.poll().status, IBV_WC_RNR_RETRY_EXC_ERR);
    ibv_cq* queue = nullptr;
    void* owner = nullptr;
    ASSERT_EQ(ibv_get_cq_event(sender.channel.get(), &queue, &owner), 0);
    ibv_ack_cq_events(queue, 1);
}

TEST_P(BothWays, threads_with_queues_of_their_own_ring_at_once) {
    const Context context = open_device();
    std::vector<std::unique_ptr<RawQueues>> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<RawQueues>(context.get()));
    std::atomic<int> good{0};
    std::vector<std::thread> threads;
    for (auto& queues : all)
        threads.emplace_back([&good, &queues] {
            for (std::uint64_t value = 1; value <= 200; ++value) {
                queues->post_write(&queues->side.word(0), value);
                if (queues->await() == MLX5_CQE_REQ) ++good;
                if (value % 50 == 0) ::poll(nullptr, 0, 5);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(good.load(), 4 * 200);
}

TEST_P(BothWays, a_child_may_write_to_the_registers_and_its_parent_goes_on) {
    const Context context = open_device();
    RawQueues queues(context.get());
    expect_quiet();
    Child child([&] {
        queues.post_write(&queues.side.word(0), 7);
        return traps_work() ? 1 : 0;
    });
    EXPECT_EQ(child.wait(), 0);
    queues.post_write(&queues.side.word(0), 8);
    ASSERT_EQ(queues.await(), MLX5_CQE_REQ);
}

// A second mapping stays when libmlx5's is gone.
TEST_P(BothWays, whoever_rings_while_the_device_is_closed_or_afterwards_is_not_held_up) {
    Context context = open_device();
    void* const pages = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, 0);
    ASSERT_NE(pages, MAP_FAILED);
    auto queues = std::make_unique<RawQueues>(context.get());
    std::atomic<bool> closed{false};
    std::atomic<int> after{0};
    std::thread other([&] {
        auto& word = *static_cast<std::uint64_t*>(pages);
        while (after.load() < 1000) {
            std::atomic_ref(word).store(1);
            if (closed.load()) ++after;
        }
    });
    queues->post_write(&queues->side.word(0), 1);
    EXPECT_EQ(queues->await(), MLX5_CQE_REQ);
    queues.reset();
    context.reset();
    closed.store(true);
    other.join();
    EXPECT_EQ(munmap(pages, 4096), 0);
}

TEST_P(BothWays, register_pages_that_were_unmapped_are_forgotten) {
    const Context context = open_device();
    void* const pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, context->cmd_fd, 0);
    ASSERT_NE(pages, MAP_FAILED);
    RawQueues queues(context.get());
    for (int i = 0; i < 2; ++i) {
        for (std::uint64_t value = 1; value <= 5; ++value) {
            queues.post_write(&queues.side.word(0), value);
            ASSERT_EQ(queues.await(), MLX5_CQE_REQ);
        }
        expect_quiet();
        EXPECT_EQ(munmap(static_cast<std::byte*>(pages) + (i == 0 ? 4096 : 0), 4096), 0);
    }
}

TEST_F(Doorbells, a_program_that_calls_is_hardly_ever_stopped) {
    const Context context = open_device();
    Side one(context.get(), {.events = true});
    connect(one.pair.get(), one.pair->qp_num);
    if (!traps_work())
        GTEST_SKIP() << "doorbells cannot be trapped here: runs where userfaultfd() is allowed";
    const long before = sleeps_of("verbatim-trap");
    const auto start = Steady::now();
    constexpr int kTimes = 200;
    for (int i = 0; i < kTimes; ++i) {
        ASSERT_EQ(ibv_req_notify_cq(one.completions.get(), 0), 0);
        one.request(IBV_WR_RDMA_WRITE, 0, 64)
            .to(one.memory.data() + 4096, one.region->rkey)
            .post(one.pair.get());
        ibv_cq* queue = nullptr;
        void* owner = nullptr;
        ASSERT_EQ(ibv_get_cq_event(one.channel.get(), &queue, &owner), 0);
        ibv_ack_cq_events(queue, 1);
        EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    }
    // One trap in 100 ms at most.
    const long allowed = 5 + (Steady::now() - start) / 50ms;
    EXPECT_LT(sleeps_of("verbatim-trap") - before, allowed);
}

void forbid_userfaultfd() {
    std::array<sock_filter, 4> program{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog filter{program.size(), program.data()};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    good(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), "PR_SET_SECCOMP");
}

TEST_F(Doorbells, where_traps_are_forbidden_the_engine_naps) {
    Child child([] {
        forbid_userfaultfd();
        const Context context = open_device();
        RawQueues queues(context.get());
        if (traps_work()) return 1;
        for (std::uint64_t value = 1; value <= 20; ++value) {
            queues.post_write(&queues.side.word(0), value);
            if (queues.await() != MLX5_CQE_REQ) return 2;
        }
        return 0;
    });
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Doorbells, another_word_than_trap_and_nap_is_refused) {
    ASSERT_NE(uverbs::sysfs_root(), nullptr);
    setenv(kVariable, "spin", 1);
    ibv_device** const list = good(ibv_get_device_list(nullptr), "ibv_get_device_list");
    EXPECT_EQ(ibv_open_device(list[0]), nullptr);
    ibv_free_device_list(list);
}

}  // namespace
}  // namespace verbatim::interop
