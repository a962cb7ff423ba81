// More connections on a lane than its first completion queue has entries for: the software NIC
// lengthens it, RDMA devices get further ones (VERBATIM_TEST_DATA_PATH).
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "connection/context_impl.hpp"
#include "core_messages.hpp"
#include "lane/lane_impl.hpp"

namespace verbatim {
namespace {

using test::soon;

constexpr std::uint32_t kEntries = 128;

Config short_config(LaneMode mode) {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.mode = mode;
    config.lane.completions = kEntries;  // of one connection
    return config;
}

bool lengthens() { return test::small_config().device.kind == "softnic"; }

TEST(LaneQueue, has_further_completion_queues_where_one_cannot_grow) {
    const std::unique_ptr<Device> device = open_configured_device(test::small_config());
    LaneQueue queue(*device, kEntries);
    SharedCompletions& first = queue.reserve(100);
    const std::uint32_t entries = first.entries();  // a device may give more than it was asked for
    SharedCompletions& second = queue.reserve(entries);
    EXPECT_EQ(&first == &second, lengthens());
    EXPECT_GE(second.entries(), 2 * entries);
    EXPECT_TRUE(queue.has(first.number()));
    EXPECT_TRUE(queue.has(second.number()));
    EXPECT_FALSE(queue.has(second.number() + 1000));
    EXPECT_TRUE(queue.arm());
}

TEST(LaneQueue, uses_entries_again_that_were_given_back) {
    const std::unique_ptr<Device> device = open_configured_device(test::small_config());
    LaneQueue queue(*device, kEntries);
    for (int i = 0; i < 100; ++i) {
        SharedCompletions& first = queue.reserve(100);
        SharedCompletions& second = queue.reserve(100);
        EXPECT_LE(second.entries(), 4 * kEntries);
        first.give_back(100);
        second.give_back(100);
    }
}

TEST(LaneQueue, tells_that_the_device_has_no_more_entries_and_goes_on) {
    const std::unique_ptr<Device> device = open_configured_device(test::small_config());
    LaneQueue queue(*device, kEntries);
    SharedCompletions& first = queue.reserve(10);
    const std::uint32_t entries = first.entries();
    EXPECT_EQ(test::error_code_of([&] { queue.reserve(std::uint32_t{1} << 31); }),
              Errc::out_of_memory);
    EXPECT_EQ(&queue.reserve(10), &first);
    EXPECT_EQ(first.entries(), entries);
}

// Connections between two contexts, one message at a time.
class ManyOfALane : public testing::TestWithParam<LaneMode> {
  protected:
    static constexpr std::size_t kCount = 20;
    void connect() {
        std::thread accepting([this] { accepted_.push_back(listener_.accept(soon())); });
        called_.push_back(calling_.connect("127.0.0.1:" + std::to_string(listener_.port())));
        accepting.join();
    }
    Context calling_{short_config(GetParam())}, serving_{short_config(GetParam())};
    Listener listener_ = serving_.listen("127.0.0.1:0");
    std::vector<Connection> called_, accepted_;
};

TEST_P(ManyOfALane, send_and_sleep_beyond_its_first_completion_queue) {
    for (std::size_t i = 0; i < kCount; ++i) connect();
    std::thread answering([this] {
        for (int round = 0; round < 20; ++round)
            for (Connection& one : accepted_)
                one.send_message(2, one.receive_message(soon()).payload(), {}, soon());
    });
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < kCount; ++i) {
            const std::string text = std::to_string(round * 100 + static_cast<int>(i));
            called_[i].send_message(1, test::bytes_of(text), {}, soon());
            EXPECT_EQ(test::text_of(called_[i].receive_message(soon())), text);
        }
    }
    answering.join();
}

TEST_P(ManyOfALane, come_and_go) {
    for (std::size_t i = 0; i < 3 * kCount; ++i) {
        if (i >= kCount) {
            called_.erase(called_.begin());
            (void)accepted_.front().try_send(1, {});  // notices the end
            accepted_.erase(accepted_.begin());
        }
        connect();
        called_.back().send_message(1, test::bytes_of("hello"), {}, soon());
        EXPECT_EQ(test::text_of(accepted_.back().receive_message(soon())), "hello");
    }
    EXPECT_EQ(calling_.lane().connections(), kCount);
}

INSTANTIATE_TEST_SUITE_P(OfModes, ManyOfALane,
                         testing::Values(LaneMode::event, LaneMode::adaptive, LaneMode::busy));

}  // namespace
}  // namespace verbatim
