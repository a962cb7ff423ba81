// Completions of queue pairs that take their receives from one shared receive queue.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <mlx5_test_shared_receives.hpp>
#include <verbatim/mlx5/completion_queue.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::uint32_t kOther = 0x00beef;  // a second queue pair, known by its number only

struct Fixture {
    explicit Fixture(DeviceOptions options = {})
        : device(options),
          send(device.queue_pair()),
          shared(shared_device.view()),
          completions(device.completion_queue()) {
        completions.attach(send, shared);
        completions.attach(kOther, shared);
    }
    // Posts this many with ids from `first` on; the indexes that the device took.
    std::vector<std::uint16_t> post_and_take(std::size_t count, std::uint64_t first = 0) {
        std::vector<std::uint16_t> taken;
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(shared.post({first + i, {}}), Errc::ok);
            taken.push_back(shared_device.take().value());
        }
        return taken;
    }
    void arrive(std::uint32_t number, std::uint16_t index, TestDevice::Arrival arrival = {}) {
        TestSharedReceives::arrive(device, number, index, arrival);
    }
    std::vector<Completion> poll(std::size_t room = 16) {
        std::vector<Completion> result(room);
        result.resize(completions.poll(result));
        return result;
    }

    TestSharedReceives shared_device;
    TestDevice device;
    SendQueue send;
    SharedReceiveQueue shared;
    CompletionQueue completions;
    const std::uint32_t own = send.number();
};

TEST(SharedCompletions, retire_the_entry_they_name_in_any_order) {
    Fixture test;
    const auto taken = test.post_and_take(4, 40);
    test.arrive(kOther, taken[2], {.bytes = 100});
    test.arrive(test.own, taken[0],
                {.opcode = MLX5_CQE_RESP_SEND_IMM, .bytes = 200, .immediate = 0x01020304});
    test.arrive(kOther, taken[3],
                {.opcode = MLX5_CQE_RESP_WR_IMM, .bytes = 300, .immediate = 0xffffffff});
    test.arrive(test.own, taken[1]);
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 4U);
    EXPECT_EQ(polled[0].id, 42U);
    EXPECT_EQ(polled[0].queue_pair, kOther);
    EXPECT_EQ(polled[0].kind, CompletionKind::receive);
    EXPECT_EQ(polled[0].bytes, 100U);
    EXPECT_FALSE(polled[0].has_immediate);
    EXPECT_EQ(polled[1].id, 40U);
    EXPECT_EQ(polled[1].queue_pair, test.own);
    EXPECT_EQ(polled[1].immediate, 0x01020304U);
    EXPECT_TRUE(polled[1].has_immediate);
    EXPECT_EQ(polled[2].id, 43U);
    EXPECT_EQ(polled[2].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(polled[2].bytes, 300U);
    EXPECT_EQ(polled[3].id, 41U);
    EXPECT_EQ(test.shared.outstanding(), 0U);
    EXPECT_EQ(test.completions.strays(), 0U);
}

TEST(SharedCompletions, an_error_retires_its_entry_and_no_other) {
    Fixture test;
    const auto taken = test.post_and_take(3, 10);
    TestSharedReceives::fail(test.device, test.own, taken[1], MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
    const auto failed = test.poll();
    ASSERT_EQ(failed.size(), 1U);
    EXPECT_EQ(failed[0].id, 11U);
    EXPECT_EQ(failed[0].status, Errc::local_length);
    EXPECT_EQ(failed[0].syndrome, MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR);
    EXPECT_EQ(failed[0].kind, CompletionKind::receive);
    EXPECT_EQ(failed[0].queue_pair, test.own);
    EXPECT_EQ(test.shared.outstanding(), 2U);
    test.arrive(kOther, taken[2]);
    test.arrive(kOther, taken[0]);
    const auto others = test.poll();
    ASSERT_EQ(others.size(), 2U);
    EXPECT_EQ(others[0].id, 12U);
    EXPECT_EQ(others[1].id, 10U);
}

TEST(SharedCompletions, a_completion_for_an_entry_that_is_not_outstanding_is_a_stray) {
    Fixture test;
    const auto taken = test.post_and_take(1);
    test.arrive(test.own, taken[0]);
    test.arrive(kOther, taken[0]);  // twice
    TestSharedReceives::fail(test.device, kOther, taken[0], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
    test.arrive(kOther, 5);      // not posted
    test.arrive(kOther, 0x100);  // not there
    EXPECT_EQ(test.poll().size(), 1U);
    EXPECT_EQ(test.completions.strays(), 4U);
    EXPECT_EQ(test.shared.free_entries(), test.shared.capacity());
}

TEST(SharedCompletions, a_queue_pair_without_receives_of_its_own_completes_its_sends) {
    Fixture test;
    ASSERT_EQ(test.send.post(inline_request(Opcode::write, 8, 3).get()), Errc::ok);
    test.device.complete(test.device.fetch().at(0));
    const auto polled = test.poll();
    ASSERT_EQ(polled.size(), 1U);
    EXPECT_EQ(polled[0].id, 3U);
    EXPECT_EQ(polled[0].kind, CompletionKind::send_side);
    mlx5_cqe64 sent{};
    sent.sop_drop_qpn = htobe32(kOther);
    test.device.write(sent, MLX5_CQE_REQ);  // its sends complete elsewhere
    EXPECT_TRUE(test.poll().empty());
    EXPECT_EQ(test.completions.strays(), 1U);
}

TEST(SharedCompletions, data_left_in_the_cqe_is_copied_to_the_entry_it_names) {
    for (const std::uint32_t entry_bytes : {64U, 128U}) {
        Fixture test({.entry_bytes = entry_bytes});
        const std::uint8_t format =
            entry_bytes == 64 ? MLX5_INLINE_SCATTER_32 : MLX5_INLINE_SCATTER_64;
        const auto data = pattern(64);
        std::memcpy(test.device.scatter.data(), data.data(), 64);
        const std::uint32_t bytes = entry_bytes / 2 - 2;
        std::array<std::byte, 64> first{}, second{}, other{};
        const auto address = [](auto& buffer) {
            return reinterpret_cast<std::uint64_t>(buffer.data());
        };
        const std::array<Element, 2> elements{{{address(first), 10, 1}, {address(second), 60, 1}}};
        const std::array<Element, 1> elsewhere{{{address(other), 64, 1}}};
        ASSERT_EQ(test.shared.post({1, elsewhere}), Errc::ok);
        ASSERT_EQ(test.shared.post({2, elements}), Errc::ok);
        static_cast<void>(test.shared_device.take());
        test.arrive(kOther, test.shared_device.take().value(), {.bytes = bytes, .format = format});
        const auto polled = test.poll();
        ASSERT_EQ(polled.size(), 1U);
        EXPECT_EQ(polled[0].id, 2U);
        EXPECT_EQ(std::memcmp(first.data(), data.data(), 10), 0);
        EXPECT_EQ(std::memcmp(second.data(), data.data() + 10, bytes - 10), 0);
        EXPECT_EQ(first[10], std::byte{0});
        EXPECT_EQ(second[bytes - 10], std::byte{0});
        EXPECT_EQ(other, (std::array<std::byte, 64>{}));
    }
}

TEST(SharedCompletions, data_in_the_cqe_that_do_not_fit_fail_their_request) {
    Fixture test;
    test.device.scatter.fill(std::byte{0x11});
    std::array<std::byte, 64> memory{};
    const auto at = reinterpret_cast<std::uint64_t>(memory.data());
    // As many elements as the entry has, and fewer.
    const std::array<Element, 3> elements{{{at, 4, 1}, {at + 4, 1, 1}, {at + 5, 1, 1}}};
    for (const std::size_t count : {3U, 2U, 0U}) {
        memory.fill(std::byte{0});
        ASSERT_EQ(test.shared.post({1, std::span(elements).first(count)}), Errc::ok);
        test.arrive(test.own, test.shared_device.take().value(),
                    {.bytes = 7, .format = MLX5_INLINE_SCATTER_32});
        EXPECT_EQ(test.poll().at(0).status, Errc::local_length);
        EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{0x11}), count == 3   ? 6
                                                                             : count == 2 ? 5
                                                                                          : 0);
    }
    EXPECT_EQ(test.shared.outstanding(), 0U);
}

TEST(SharedCompletions, discarding_one_queue_pair_frees_its_entries_and_leaves_the_others) {
    for (const bool detach : {false, true}) {
        Fixture test;
        const auto taken = test.post_and_take(4, 0);
        test.arrive(kOther, taken[0]);
        test.arrive(test.own, taken[1]);
        TestSharedReceives::fail(test.device, kOther, taken[2], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
        detach ? test.completions.detach(kOther) : test.completions.discard(kOther);
        EXPECT_EQ(test.shared.outstanding(), 2U);
        const auto polled = test.poll();
        ASSERT_EQ(polled.size(), 1U);
        EXPECT_EQ(polled[0].id, 1U);
        EXPECT_EQ(test.shared.outstanding(), 1U);  // the one nobody finished
    }
}

TEST(SharedCompletions, a_number_may_come_back_with_a_receive_queue_of_its_own) {
    Fixture test;
    ReceiveQueue receive(test.device.queue_pair());
    test.completions.attach(&test.send, &receive);
    ASSERT_EQ(receive.post({7, {}}), Errc::ok);
    test.device.arrive({});
    ASSERT_EQ(test.poll().at(0).id, 7U);
    test.completions.attach(test.send, test.shared);
    const auto taken = test.post_and_take(1, 8);
    test.arrive(test.own, taken[0]);
    ASSERT_EQ(test.poll().at(0).id, 8U);
}

}  // namespace
}  // namespace verbatim::mlx5
