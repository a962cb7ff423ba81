// The receive queue as the device sees it.
#include <verbatim/mlx5/receive_queue.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::array<Element, 1> kOne{{{0x1000, 64, 7}}};
constexpr std::array<Element, 2> kTwo{{{0x2000, 128, 8}, {0x3000, 1U << 31, 9}}};

std::vector<mlx5_wqe_data_seg> segments(const TestDevice& device, std::size_t entry,
                                        std::size_t count) {
    std::vector<mlx5_wqe_data_seg> result(count);
    std::memcpy(result.data(), device.receive_ring() + entry * count * 16, count * 16);
    return result;
}

void expect_element(const mlx5_wqe_data_seg& segment, const Element& element) {
    EXPECT_EQ(be32toh(segment.byte_count), element.bytes & 0x7fffffff);
    EXPECT_EQ(be32toh(segment.lkey), element.local_key);
    EXPECT_EQ(be64toh(segment.addr), element.address);
}

TEST(ReceiveQueue, entries_end_with_an_invalid_key_where_they_are_short) {
    TestDevice device({.receive_entries = 4, .receive_stride_log2 = 5, .max_receive_elements = 2});
    ReceiveQueue queue(device.queue_pair());
    ASSERT_EQ(queue.post(ReceiveRequest{1, kOne}), Errc::ok);
    EXPECT_EQ(queue.post(ReceiveRequest{2, kTwo}),
              Errc::message_too_large);  // over 2^31 bytes together
    std::array<Element, 2> two = kTwo;
    two[1].bytes = 4096;
    ASSERT_EQ(queue.post(ReceiveRequest{2, two}), Errc::ok);
    ASSERT_EQ(queue.post(ReceiveRequest{3, {}}), Errc::ok);
    EXPECT_EQ(device.receive_record(), 3U);
    const auto first = segments(device, 0, 2);
    expect_element(first[0], kOne[0]);
    EXPECT_EQ(be32toh(first[1].lkey), static_cast<std::uint32_t>(MLX5_INVALID_LKEY));
    EXPECT_EQ(first[1].byte_count, 0U);
    const auto second = segments(device, 1, 2);
    expect_element(second[0], two[0]);
    expect_element(second[1], two[1]);
    EXPECT_EQ(be32toh(segments(device, 2, 2)[0].lkey),
              static_cast<std::uint32_t>(MLX5_INVALID_LKEY));
}

TEST(ReceiveQueue, retires_in_order_each_entry_once) {
    TestDevice device({.receive_entries = 4});
    ReceiveQueue queue(device.queue_pair());
    EXPECT_FALSE(queue.retire());
    for (std::uint64_t id = 20; id < 23; ++id) ASSERT_EQ(queue.post({id, kOne}), Errc::ok);
    for (std::uint64_t id = 20; id < 23; ++id) EXPECT_EQ(queue.retire(), id);
    EXPECT_FALSE(queue.retire());
    EXPECT_EQ(queue.outstanding(), 0U);
}

TEST(ReceiveQueue, refuses_a_post_when_full_and_posts_lists_whole) {
    TestDevice device({.receive_entries = 4});
    ReceiveQueue queue(device.queue_pair());
    std::vector<ReceiveRequest> three(3, {1, kOne});
    ASSERT_EQ(queue.post(std::span<const ReceiveRequest>(three)), Errc::ok);
    EXPECT_EQ(queue.post(std::span<const ReceiveRequest>(three)), Errc::would_block);
    EXPECT_EQ(device.receive_record(), 3U);
    ASSERT_EQ(queue.post({2, kOne}), Errc::ok);
    EXPECT_EQ(queue.post({3, kOne}), Errc::would_block);
    std::vector<ReceiveRequest> five(5, {1, kOne});
    EXPECT_EQ(queue.post(std::span<const ReceiveRequest>(five)), Errc::message_too_large);
    ASSERT_TRUE(queue.retire());
    std::array<Element, 3> many{kOne[0], kOne[0], kOne[0]};
    EXPECT_EQ(queue.post({3, many}), Errc::invalid_argument);
    EXPECT_EQ(queue.post({3, kOne}), Errc::ok);
    EXPECT_EQ(device.receive_record(), 5U);
}

TEST(ReceiveQueue, reposts_what_an_entry_held_before_for_one_store) {
    TestDevice device({.receive_entries = 4, .receive_stride_log2 = 4, .max_receive_elements = 1});
    ReceiveQueue queue(device.queue_pair());
    EXPECT_EQ(queue.repost(1), Errc::invalid_argument);  // never filled
    std::array<Element, 4> elements;
    for (std::uint32_t i = 0; i < 4; ++i) {
        elements[i] = {0x1000U * (i + 1), 64, 7};
        ASSERT_EQ(queue.post({i, std::span(&elements[i], 1)}), Errc::ok);
    }
    std::uint16_t counter = 0;
    for (int lap = 0; lap < 0x5000; ++lap) {  // past 2^16 entries
        EXPECT_EQ(queue.repost(1), Errc::would_block);
        for (std::uint64_t id = 0; id < 4; ++id) ASSERT_EQ(queue.retire(), id);
        counter = static_cast<std::uint16_t>(counter + 4);
        ASSERT_EQ(queue.repost(3), Errc::ok);
        ASSERT_EQ(queue.repost(1), Errc::ok);
        ASSERT_EQ(device.receive_record(), static_cast<std::uint16_t>(counter + 4));
    }
    for (std::size_t i = 0; i < 4; ++i) expect_element(segments(device, i, 1)[0], elements[i]);
    queue.reset();
    EXPECT_EQ(device.receive_record(), 0U);
    EXPECT_EQ(queue.repost(1), Errc::invalid_argument);
    EXPECT_EQ(queue.free_entries(), 4U);
}

TEST(ReceiveQueue, a_view_that_cannot_work_is_refused) {
    TestDevice device;
    const auto refused = [&](auto spoil) {
        QueuePairView view = device.queue_pair();
        spoil(view);
        EXPECT_THROW(ReceiveQueue{view}, Error);
    };
    refused([](QueuePairView& view) { view.receive_buffer = nullptr; });
    refused([](QueuePairView& view) { view.receive_entries = 0; });
    refused([](QueuePairView& view) { view.receive_entries = 3; });
    refused([](QueuePairView& view) { view.receive_stride_log2 = 3; });
    refused([](QueuePairView& view) { view.doorbell_record = nullptr; });
}

}  // namespace
}  // namespace verbatim::mlx5
