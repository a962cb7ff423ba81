// Posting and polling allocate nothing, on any executor: on the backends of this machine. A
// program of its own, because it replaces operator new.
#include <array>

#include <verbatim/mlx5/prepared.hpp>

#include <counted_allocations.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

class DriverAllocation : public DriverTest {
  protected:
    // 0, or the number of the step that went wrong.
    int round(std::uint64_t id) noexcept {
        if (b.receive->post(mlx5::ReceiveRequest{id, std::span(&into_, 1)}) != Errc::ok) return 1;
        list_[1].id = id;
        if (a.send->post(list_) != Errc::ok) return 2;
        if (write_.post(id, a.peer.address + 512, id) != Errc::ok) return 3;
        if (prepared_.post(id, a.peer.address + id % 64 * 8, payload_.data()) != Errc::ok) return 4;
        // list: one signaled; the two prepared ones; and what arrived.
        return poll(3, 1) ? 0 : 5;
    }

    WorkRequest list_[2];
    const Element from_ = a.element(0, 100), into_ = b.element(4096, 100);

    DriverAllocation() {
        list_[0] = a.request(Opcode::write, 1024);
        list_[0].elements = std::span(&from_, 1);
        list_[0].signaled = false;
        list_[1] = a.request(Opcode::send);
        list_[1].elements = std::span(&from_, 1);
    }

  private:
    // Both in turn: some devices work in the polling thread only.
    bool poll(std::size_t at_a, std::size_t at_b) noexcept {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (at_a + at_b != 0 && std::chrono::steady_clock::now() < deadline) {
            for (End* end : {&a, &b}) {
                const std::size_t now = end->completions->poll(found_);
                for (std::size_t i = 0; i < now; ++i)
                    if (found_[i].status != Errc::ok) return false;
                (end == &a ? at_a : at_b) -= now;
            }
        }
        return at_a + at_b == 0;
    }

    std::array<Completion, 8> found_;
    std::array<std::byte, 100> payload_{};
    mlx5::PreparedWrite8 write_{*a.send, a.request(Opcode::write)};
    mlx5::Prepared<Opcode::write, mlx5::Inline<100>> prepared_{*a.send, a.request(Opcode::write)};
};

TEST_P(DriverAllocation, posting_and_polling_take_no_memory) {
    for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(round(i), 0);  // all is set up
    // Of this thread: those that look for peers in the background may take some.
    const std::uint64_t before = allocations_of_this_thread;
    int failed_step = 0;
    for (std::uint64_t i = 0; i < 500 && failed_step == 0; ++i) failed_step = round(i);
    EXPECT_EQ(failed_step, 0);
    EXPECT_EQ(allocations_of_this_thread - before, 0u);
    EXPECT_GT(before, 0u) << "the counter works";
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverAllocation, testing::ValuesIn(backends()), name_of);

}  // namespace
}  // namespace verbatim::test
