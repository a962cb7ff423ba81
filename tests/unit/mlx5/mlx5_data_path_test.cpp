// The data path makes no system call and allocates nothing: a child that may only read, write and
// exit (seccomp strict mode) posts and polls, and operator new counts. An allocation that found
// memory would make no system call, and a system call need not allocate: hence both.
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include <counted_allocations.hpp>
#include <mlx5_test_shared_receives.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;
using verbatim::test::allocations_of_this_thread;

// Everything a program may do between set-up and tear-down.
class DataPath {
  public:
    // 0, or the number of the step that went wrong.
    int run() noexcept {
        for (std::uint64_t i = 0; i < 5000; ++i) {
            if (queue_.post(inline_.work) != Errc::ok) return 1;
            if (queue_.post(gather_.work) != Errc::ok) return 2;
            if (queue_.post(std::span<const WorkRequest>(list_)) != Errc::ok) return 3;
            if (write_.post(i, i * 8, i) != Errc::ok) return 4;
            if (prepared_.post(i, i * 8, inline_.inline_payload.data()) != Errc::ok) return 5;
            const auto nth = [i](std::uint32_t k) { return Listed{i * 8, std::uint64_t{k}}; };
            if (write_.post_list(i, 2, nth) != Errc::ok) return 6;
            epoch_ = i;  // prepared operations look at their regions again
            if (receive_.post(ReceiveRequest{i, elements_}) != Errc::ok) return 7;
            complete_last();
            if (completions_.poll(polled_) != 2) return 8;
            if (queue_.free_blocks() != queue_.blocks() || receive_.outstanding() != 0) return 9;
            if (const int step = run_shared(i); step != 0) return step;
        }
        return 0;
    }

  private:
    // Completes the last WQE posted (it has one block) and a receive, without the
    // allocating decoder.
    void complete_last() noexcept {
        mlx5_cqe64 sent{};
        sent.sop_drop_qpn = htobe32(0xabcd);
        sent.wqe_counter = htobe16(static_cast<std::uint16_t>(device_.send_record() - 1));
        device_.write(sent, MLX5_CQE_REQ);
        device_.arrive({.bytes = 4});
    }

    // Receives of a second queue pair from a shared queue, the later one finished first.
    int run_shared(std::uint64_t i) noexcept {
        const ReceiveRequest request{i, elements_};
        if (shared_.post(request) != Errc::ok) return 10;
        if (i > 8 && shared_.repost(1) != Errc::ok) return 11;
        if (i <= 8 && shared_.post(request) != Errc::ok) return 12;
        const auto first = shared_device_.take(), second = shared_device_.take();
        if (!first || !second) return 13;
        TestSharedReceives::arrive(device_, kSharing, *second, {.bytes = 4});
        TestSharedReceives::fail(device_, kSharing, *first, MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
        if (completions_.poll(polled_) != 2 || shared_.outstanding() != 0) return 14;
        return 0;
    }

    static constexpr std::uint32_t kSharing = 0x77;
    std::uint64_t epoch_ = 0;
    TestSharedReceives shared_device_;
    SharedReceiveQueue shared_{shared_device_.view()};
    TestDevice device_;
    SendQueue queue_{device_.queue_pair(), &epoch_};
    ReceiveQueue receive_{device_.queue_pair()};
    CompletionQueue completions_{device_.completion_queue()};
    Request inline_ = inline_request(Opcode::write, 100), gather_ = gather_request(Opcode::read, 3);
    std::array<WorkRequest, 2> list_{};
    std::array<Element, 1> elements_{{{0x1000, 64, 7}}};
    PreparedWrite8 write_{queue_, {.opcode = Opcode::write, .remote_key = 1}};
    Prepared<Opcode::write, Inline<100>> prepared_{queue_, {.opcode = Opcode::write}};
    std::array<Completion, 8> polled_;

  public:
    DataPath() {
        inline_.get();
        gather_.get();
        completions_.attach(&queue_, &receive_);
        completions_.attach(kSharing, shared_);
    }
};

TEST(DataPath, allocates_nothing) {
    DataPath path;
    const std::uint64_t before = allocations_of_this_thread;
    const int failed_step = path.run();
    EXPECT_EQ(allocations_of_this_thread - before, 0U);
    EXPECT_EQ(failed_step, 0);
    EXPECT_GT(before, 0U);  // the counter works
}

TEST(DataPath, makes_no_system_call) {
    DataPath path;
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        // glibc's exit is exit_group, which strict mode kills: hence the plain call.
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) syscall(SYS_exit, 100);
        syscall(SYS_exit, path.run());
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
        GTEST_SKIP() << "this kernel has no seccomp";
    ASSERT_TRUE(WIFEXITED(status))
        << "killed by signal " << WTERMSIG(status) << ": a system call was made";
    EXPECT_EQ(WEXITSTATUS(status), 0) << "step";
}

}  // namespace
}  // namespace verbatim::mlx5
