// Random work requests of all kinds, posted alone and in lists, against a model of what the
// queue must do, with a device that completes, fails and resets at will. Counters wrap several
// times.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <random>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "mlx5_requests.hpp"
#include "sanitized.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;
using verbatim::test::kSanitized;

class RandomRun {
  public:
    explicit RandomRun(std::uint32_t blocks)
        : random_(blocks * 7919),
          device_({.send_blocks = blocks, .completion_entries = 256}),
          queue_(device_.queue_pair()),
          completions_(device_.completion_queue()) {
        completions_.attach(&queue_, nullptr);
    }

    std::uint64_t posted() const { return next_id_; }

    void step() {
        const std::uint32_t action = pick(100);
        if (action < 45)
            post_fresh();
        else if (action < 65)
            post_list();
        else if (action < 97)
            execute();
        else if (action < 99)
            fail();
        else
            reset();
        ASSERT_EQ(queue_.outstanding(), expected_.size());
        ASSERT_EQ(queue_.free_blocks(), queue_.blocks() - used_blocks());
    }

  private:
    struct Outstanding {
        std::uint64_t id;
        std::uint32_t blocks;
    };

    std::uint32_t pick(std::uint32_t below) {
        return static_cast<std::uint32_t>(random_() % below);
    }
    std::uint32_t used_blocks() const {
        std::uint32_t sum = 0;
        for (const Outstanding& one : expected_) sum += one.blocks;
        return sum;
    }

    Request any() {
        static constexpr Opcode kOpcodes[] = {Opcode::nop,
                                              Opcode::send,
                                              Opcode::send_immediate,
                                              Opcode::write,
                                              Opcode::write_immediate,
                                              Opcode::send_invalidate,
                                              Opcode::bind_window,
                                              Opcode::local_invalidate,
                                              Opcode::read,
                                              Opcode::compare_swap,
                                              Opcode::fetch_add};
        const Opcode opcode = kOpcodes[pick(std::size(kOpcodes))];
        Request asked = request(opcode, next_id_);
        if (is_atomic(opcode))
            asked = atomic_request(opcode, next_id_);
        else if (takes_inline_payload(opcode) && pick(2) == 0)
            asked = inline_request(opcode, 1 + pick(200), next_id_);
        else if (opcode == Opcode::bind_window)
            asked.binding = any_window();
        else if (opcode != Opcode::nop && opcode != Opcode::local_invalidate)
            asked = gather_request(opcode, pick(8), next_id_);
        // Payload and elements together.
        if (!asked.inline_payload.empty() && pick(4) == 0)
            asked.elements = gather_request(opcode, pick(4)).elements;
        asked.work.signaled = pick(3) == 0;
        asked.work.fence = pick(5) == 0;
        asked.work.solicited = pick(5) == 0;
        ++next_id_;
        return asked;
    }

    WindowBinding any_window() {
        const bool of_queue_pair = pick(2) == 0;
        return {.window_key = 0x1200 + pick(256),
                .new_key = 0x1200 + pick(256),
                .local_key = pick(1 << 24),
                .address = random_(),
                .bytes = of_queue_pair ? 1 + pick(1 << 20) : pick(2) * pick(1 << 20),
                .remote_read = pick(2) == 0,
                .remote_write = pick(2) == 0,
                .remote_atomic = pick(2) == 0,
                .zero_based = pick(4) == 0,
                .of_queue_pair = of_queue_pair};
    }

    // The device sees exactly what was asked for.
    void accepted(std::vector<Request>& asked) {
        const auto seen = device_.fetch();
        ASSERT_EQ(seen.size(), asked.size());
        for (std::size_t i = 0; i < seen.size(); ++i) {
            expect_sees(seen[i], asked[i], behind_update_);
            behind_update_ = is_key_update(asked[i].work.opcode);
            ASSERT_FALSE(testing::Test::HasFailure());
            expected_.push_back({asked[i].work.id, seen[i].blocks()});
            fetched_.push_back(seen[i]);
        }
    }
    void check_result(Errc result, std::vector<Request>& asked) {
        std::uint32_t blocks = 0;
        for (Request& one : asked) blocks += shape_of(one.get()).blocks();
        const std::uint32_t free = queue_.blocks() - used_blocks();
        if (blocks <= free) {
            ASSERT_EQ(result, Errc::ok);
            accepted(asked);
        } else {
            ASSERT_EQ(result,
                      blocks > queue_.blocks() ? Errc::message_too_large : Errc::would_block);
            ASSERT_TRUE(device_.fetch().empty());
        }
    }

    void post_fresh() {
        std::vector<Request> asked{any()};
        const Errc result = queue_.post(asked[0].get());
        check_result(result, asked);
    }
    void post_list() {
        std::vector<Request> asked;
        for (std::uint32_t i = 0; i <= pick(4); ++i) asked.push_back(any());
        std::vector<WorkRequest> work;
        for (Request& one : asked) work.push_back(one.get());
        const Errc result = queue_.post(std::span<const WorkRequest>(work));
        check_result(result, asked);
    }
    // The device executes a few; each signaled one must retire itself and all before it.
    void execute() {
        std::vector<std::uint64_t> signaled;
        for (std::uint32_t count = 1 + pick(6); count > 0 && !fetched_.empty(); --count) {
            if (fetched_.front().signaled()) {
                device_.complete(fetched_.front());
                signaled.push_back(expected_[expected_.size() - fetched_.size()].id);
            }
            fetched_.pop_front();
        }
        expect_completions(signaled, Errc::ok);
    }
    void fail() {
        std::vector<std::uint64_t> all;
        while (!fetched_.empty()) {
            device_.fail(fetched_.front(), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
            all.push_back(expected_[expected_.size() - fetched_.size()].id);
            fetched_.pop_front();
        }
        expect_completions(all, Errc::flushed);
    }
    void reset() {
        completions_.discard(queue_.number());
        queue_.reset();
        device_.reset();
        fetched_.clear();
        expected_.clear();
        behind_update_ = false;
    }

    void expect_completions(const std::vector<std::uint64_t>& ids, Errc status) {
        std::vector<Completion> polled(ids.size() + 1);
        polled.resize(completions_.poll(polled));
        ASSERT_EQ(polled.size(), ids.size());
        for (std::size_t i = 0; i < ids.size(); ++i) {
            ASSERT_EQ(polled[i].id, ids[i]);
            ASSERT_EQ(polled[i].status, status);
        }
        if (ids.empty()) return;
        while (expected_.front().id != ids.back()) expected_.pop_front();
        expected_.pop_front();
    }

    std::mt19937 random_;
    TestDevice device_;
    SendQueue queue_;
    CompletionQueue completions_;
    std::uint64_t next_id_ = 0;
    std::deque<Outstanding> expected_;  // accepted, not retired
    std::deque<SeenWqe> fetched_;       // of those, what the device has not executed
    bool behind_update_ = false;        // the last one accepted was an update of a memory key
};

class RandomQueue : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, RandomQueue, testing::Values(1U, 2U, 4U, 8U, 16U, 64U));

TEST_P(RandomQueue, agrees_with_the_model) {
    RandomRun run(GetParam());
    const bool all_day = std::getenv("VERBATIM_LONG") != nullptr;
    const std::uint64_t enough = all_day ? 1 << 20 : kSanitized ? 40'000 : 100'000;
    while (run.posted() < enough) {
        run.step();
        if (HasFatalFailure()) FAIL() << "after " << run.posted() << " requests";
    }
}

}  // namespace
}  // namespace verbatim::mlx5
