// The shared receive queue as the device sees it.
#include <verbatim/mlx5/shared_receive_queue.hpp>

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <mlx5_test_shared_receives.hpp>

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::array<Element, 1> kOne{{{0x1000, 64, 7}}};
constexpr std::array<Element, 3> kThree{{{0x2000, 128, 8}, {0x3000, 1, 9}, {0x4000, 4096, 10}}};

void expect_elements(const std::vector<mlx5_wqe_data_seg>& seen, std::span<const Element> asked) {
    ASSERT_EQ(seen.size(), asked.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
        EXPECT_EQ(be32toh(seen[i].byte_count), asked[i].bytes);
        EXPECT_EQ(be32toh(seen[i].lkey), asked[i].local_key);
        EXPECT_EQ(be64toh(seen[i].addr), asked[i].address);
    }
}

// Requests with one element each, at addresses that tell the entries apart.
class Numbered {
  public:
    explicit Numbered(std::uint32_t count) : elements_(count) {
        for (std::uint32_t i = 0; i < count; ++i) {
            elements_[i] = {0x1000U * (i + 1), 64, 7};
            requests_.push_back({i, std::span(&elements_[i], 1)});
        }
    }
    std::span<const ReceiveRequest> all() const { return requests_; }
    std::span<const Element> elements(std::size_t i) const { return requests_[i].elements; }

  private:
    std::vector<Element> elements_;
    std::vector<ReceiveRequest> requests_;
};

TEST(SharedReceiveQueue, entries_are_scatter_lists_behind_a_link) {
    TestSharedReceives device;  // room for 3 elements
    SharedReceiveQueue queue(device.view());
    const std::array<ReceiveRequest, 3> list{{{1, kOne}, {2, kThree}, {3, {}}}};
    ASSERT_EQ(queue.post(std::span<const ReceiveRequest>(list)), Errc::ok);
    EXPECT_EQ(device.record(), 3);
    for (const ReceiveRequest& asked : list) {
        const auto index = device.take();
        ASSERT_TRUE(index);
        expect_elements(device.elements(*index), asked.elements);
        EXPECT_EQ(queue.retire(*index), asked.id);
    }
    EXPECT_FALSE(device.take());
}

TEST(SharedReceiveQueue, a_list_as_long_as_the_stride_needs_no_end) {
    TestSharedReceives device({.entries = 2, .stride_log2 = 5, .max_elements = 9});
    SharedReceiveQueue queue(device.view());
    EXPECT_EQ(queue.post({1, std::span(kThree).first(2)}), Errc::invalid_argument);
    ASSERT_EQ(queue.post({1, kOne}), Errc::ok);
    expect_elements(device.elements(device.take().value()), kOne);
}

TEST(SharedReceiveQueue, refuses_a_post_when_full_and_posts_lists_whole) {
    TestSharedReceives device({.entries = 4});
    SharedReceiveQueue queue(device.view());
    EXPECT_EQ(queue.capacity(), 3U);
    const std::vector<ReceiveRequest> two(2, {1, kOne}), four(4, {1, kOne});
    EXPECT_EQ(queue.post(std::span<const ReceiveRequest>(four)), Errc::message_too_large);
    ASSERT_EQ(queue.post(std::span<const ReceiveRequest>(two)), Errc::ok);
    EXPECT_EQ(queue.post(std::span<const ReceiveRequest>(two)), Errc::would_block);
    EXPECT_EQ(device.record(), 2);
    ASSERT_EQ(queue.post({2, kOne}), Errc::ok);
    EXPECT_EQ(queue.post({3, kOne}), Errc::would_block);
    EXPECT_EQ(queue.outstanding(), 3U);
    ASSERT_TRUE(queue.retire(device.take().value()));
    const std::array<ReceiveRequest, 1> many{{{3, std::span(kThree)}}};
    std::array<Element, 4> too_many{kOne[0], kOne[0], kOne[0], kOne[0]};
    EXPECT_EQ(queue.post({3, too_many}), Errc::invalid_argument);
    EXPECT_EQ(device.record(), 3);
    EXPECT_EQ(queue.post(std::span<const ReceiveRequest>(many)), Errc::ok);
    EXPECT_EQ(device.record(), 4);
}

TEST(SharedReceiveQueue, retires_in_any_order_each_entry_once) {
    TestSharedReceives device;
    SharedReceiveQueue queue(device.view());
    std::array<std::uint16_t, 7> taken{};
    EXPECT_FALSE(queue.retire(0));  // nothing is posted
    for (std::uint64_t id = 20; id < 27; ++id) ASSERT_EQ(queue.post({id, kOne}), Errc::ok);
    for (std::uint16_t& index : taken) index = device.take().value();
    for (const std::size_t i : {3U, 0U, 6U, 1U, 5U, 2U, 4U}) {
        EXPECT_EQ(queue.retire(taken[i]), 20 + i);
        EXPECT_FALSE(queue.retire(taken[i])) << "twice";
    }
    EXPECT_EQ(queue.outstanding(), 0U);
    for (const unsigned stray : {7U, 8U, 0x7fffU, 0xfffeU, 0xffffU})
        EXPECT_FALSE(queue.retire(static_cast<std::uint16_t>(stray)));
    EXPECT_EQ(queue.free_entries(), 7U);
}

TEST(SharedReceiveQueue, entries_are_taken_again_in_the_order_they_were_retired) {
    TestSharedReceives device({.entries = 4});
    SharedReceiveQueue queue(device.view());
    for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(queue.post({id, kOne}), Errc::ok);
    const std::array<std::uint16_t, 3> first{*device.take(), *device.take(), *device.take()};
    for (const std::size_t i : {2U, 0U, 1U}) ASSERT_TRUE(queue.retire(first[i]));
    for (std::uint64_t id = 3; id < 6; ++id) ASSERT_EQ(queue.post({id, kOne}), Errc::ok);
    EXPECT_EQ(device.take(), 3);  // never used before
    EXPECT_EQ(device.take(), first[2]);
    EXPECT_EQ(device.take(), first[0]);
    EXPECT_FALSE(device.take());
}

TEST(SharedReceiveQueue, prebuilt_entries_are_posted_and_refilled_as_they_were) {
    TestSharedReceives device({.entries = 4});
    SharedReceiveQueue queue(device.view());
    const Numbered numbered(4);
    EXPECT_EQ(queue.repost(1), Errc::invalid_argument);  // never filled
    EXPECT_EQ(queue.prebuild(numbered.all().first(3)), Errc::invalid_argument);
    ASSERT_EQ(queue.prebuild(numbered.all()), Errc::ok);
    EXPECT_EQ(device.record(), 0);
    EXPECT_EQ(queue.repost(4), Errc::message_too_large);
    ASSERT_EQ(queue.repost(3), Errc::ok);
    EXPECT_EQ(queue.prebuild(numbered.all()), Errc::invalid_argument);  // entries are outstanding
    std::uint16_t counter = 3;
    for (std::uint32_t round = 0; round < 0x14000; ++round) {  // past 2^16 entries
        ASSERT_EQ(device.record(), counter);
        ASSERT_EQ(queue.repost(1), Errc::would_block);
        const auto index = device.take();
        ASSERT_TRUE(index);
        const auto id = queue.retire(*index);
        ASSERT_EQ(id, round % 4);
        ASSERT_EQ(queue.repost(1), Errc::ok);
        ++counter;
        expect_elements(device.elements(*index), numbered.elements(*id));
        if (HasFailure()) FAIL() << "in round " << round;
    }
}

TEST(SharedReceiveQueue, a_refill_never_takes_the_entry_retired_last) {
    TestSharedReceives device({.entries = 8});
    SharedReceiveQueue queue(device.view());
    ASSERT_EQ(queue.prebuild(Numbered(8).all()), Errc::ok);
    ASSERT_EQ(queue.repost(7), Errc::ok);
    std::vector<std::uint16_t> held;
    for (int i = 0; i < 7; ++i) held.push_back(device.take().value());
    for (int round = 0; round < 1000; ++round) {
        // The device finishes them in no particular order.
        std::swap(held.front(), held[static_cast<std::size_t>(round) * 5 % held.size()]);
        const std::uint16_t index = held.front();
        ASSERT_TRUE(queue.retire(index));
        ASSERT_EQ(queue.repost(1), Errc::ok);
        held.front() = device.take().value();
        ASSERT_NE(held.front(), index) << "its message has not been handled yet";
    }
}

TEST(SharedReceiveQueue, a_batch_of_refills_is_one_record_update) {
    TestSharedReceives device({.entries = 8});
    SharedReceiveQueue queue(device.view());
    ASSERT_EQ(queue.prebuild(Numbered(8).all()), Errc::ok);
    ASSERT_EQ(queue.repost(5), Errc::ok);
    EXPECT_EQ(device.record(), 5);
    EXPECT_EQ(queue.repost(3), Errc::would_block);
    EXPECT_EQ(device.record(), 5);  // none, rather than some
    EXPECT_EQ(queue.outstanding(), 5U);
    ASSERT_EQ(queue.repost(2), Errc::ok);
    EXPECT_EQ(device.record(), 7);
}

TEST(SharedReceiveQueue, posts_fill_all_entries_in_time_and_then_they_can_be_refilled) {
    TestSharedReceives device({.entries = 4});
    SharedReceiveQueue queue(device.view());
    for (std::uint64_t id = 0; id < 3; ++id) ASSERT_EQ(queue.post({id, kOne}), Errc::ok);
    ASSERT_EQ(queue.retire(device.take().value()), 0U);
    EXPECT_EQ(queue.repost(1), Errc::invalid_argument);  // the fourth was never filled
    ASSERT_EQ(queue.post({3, kOne}), Errc::ok);
    ASSERT_EQ(queue.retire(device.take().value()), 1U);
    ASSERT_EQ(queue.repost(1), Errc::ok);
    std::vector<std::uint64_t> ids;
    while (const auto index = device.take()) ids.push_back(queue.retire(*index).value());
    EXPECT_EQ(ids, (std::vector<std::uint64_t>{2, 3, 0}));
}

TEST(SharedReceiveQueue, a_view_that_cannot_work_is_refused) {
    TestSharedReceives device;
    const auto refused = [&](auto spoil) {
        SharedReceiveQueueView view = device.view();
        spoil(view);
        EXPECT_THROW(SharedReceiveQueue{view}, Error);
    };
    refused([](SharedReceiveQueueView& view) { view.buffer = nullptr; });
    refused([](SharedReceiveQueueView& view) { view.buffer += 8; });
    refused([](SharedReceiveQueueView& view) { view.entries = 0; });
    refused([](SharedReceiveQueueView& view) { view.entries = 1; });
    refused([](SharedReceiveQueueView& view) { view.entries = 6; });
    refused([](SharedReceiveQueueView& view) { view.entries = 1U << 16; });
    refused([](SharedReceiveQueueView& view) { view.stride_log2 = 4; });
    refused([](SharedReceiveQueueView& view) { view.stride_log2 = 11; });
    refused([](SharedReceiveQueueView& view) { view.doorbell_record = nullptr; });
}

}  // namespace
}  // namespace verbatim::mlx5
