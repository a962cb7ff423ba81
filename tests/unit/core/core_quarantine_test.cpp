// Memory that was lent to a peer which is stopped in the middle of a copy: nobody gets it, and
// nobody waits for it.
#include <gtest/gtest.h>

#include <functional>

#include "core_messages.hpp"
#include "core_scripted_device.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

// Two connections of a context on such a device.
class QuarantineTest : public testing::Test {
  protected:
    QuarantineTest() {
        Listener listener = other_.listen("127.0.0.1:0");
        for (std::optional<Connection>* const made : {&lost_, &kept_}) {
            std::thread accepting([&] { accepted_.push_back(listener.accept(soon())); });
            made->emplace(context_.connect("127.0.0.1:" + std::to_string(listener.port())));
            accepting.join();
            if (first_number_ == 0) first_number_ = device_->last_queue_pair;
        }
    }
    // Lends memory on the first connection, whose queue pair fails then.
    Grant lend_and_lose(std::size_t bytes) {
        Arena& arena = lost_->receive_arena();
        std::shared_ptr<std::byte> memory(
            static_cast<std::byte*>(arena.allocate(bytes, 4096)),
            [this, bytes, arena = lost_->receive_arena_ptr()](std::byte* at) {
                arena->deallocate(at, bytes, 4096);
                is_free_ = true;
            });
        Grant grant(*lost_, {memory.get(), bytes}, Access::remote_write, memory);
        memory.reset();
        device_->barriers_pass = false;
        device_->raise(DeviceEventKind::queue_pair_failed, first_number_);
        const Deadline deadline = soon();
        while (lost_->progress() == Errc::ok && !deadline.passed()) {
        }
        (void)lost_->progress();
        return grant;
    }

    ScriptedDevice* device_ = new ScriptedDevice;  // the context's
    Context context_{small_config(), std::unique_ptr<Device>(device_)};
    Context other_{small_config()};
    std::optional<Connection> lost_, kept_;
    std::vector<Connection> accepted_;
    bool is_free_ = false;
    std::uint32_t first_number_ = 0;
};

TEST_F(QuarantineTest, keeps_what_was_lent_until_the_barrier_has_passed) {
    Grant grant = lend_and_lose(4096);
    EXPECT_FALSE(grant.has_ended());
    EXPECT_EQ(error_code_of([&] { grant.wait_end(Deadline::after(20ms)); }), Errc::timeout);
    lost_.reset();
    EXPECT_FALSE(is_free_) << "closing does not free it either";
    device_->barriers_pass = true;
    grant.wait_end(soon());
    EXPECT_TRUE(is_free_);
}

TEST_F(QuarantineTest, lets_memory_go_by_polls_of_any_lane_of_the_context) {
    lend_and_lose(4096);
    lost_.reset();
    device_->barriers_pass = true;
    const Deadline deadline = soon();
    while (!is_free_ && !deadline.passed()) (void)kept_->progress();
    EXPECT_TRUE(is_free_);
}

TEST_F(QuarantineTest, wakes_a_lane_that_sleeps) {
    lend_and_lose(4096);
    lost_.reset();
    std::thread later([this] { device_->barriers_pass = true; });
    const Deadline deadline = soon();
    while (!is_free_ && !deadline.passed()) (void)context_.lane().wait(Deadline::after(100ms));
    later.join();
    EXPECT_TRUE(is_free_);
}

TEST_F(QuarantineTest, that_is_full_refuses_more_loans_and_nothing_else) {
    lend_and_lose(small_config().receive_arena.max_bytes / 2 + 4096);
    auto* word = static_cast<std::byte*>(kept_->receive_arena().allocate(64, 64));
    const auto lend = [&] {
        return error_code_of([&] { Grant(*kept_, {word, 64}, Access::remote_write); });
    };
    EXPECT_EQ(lend(), Errc::out_of_memory);
    ASSERT_EQ(kept_->try_send(1, bytes_of("still here")), Errc::ok);
    EXPECT_EQ(text_of(accepted_[1].receive_message(soon())), "still here");
    device_->barriers_pass = true;
    EXPECT_EQ(lend(), Errc::ok);
}

}  // namespace
}  // namespace verbatim::test
