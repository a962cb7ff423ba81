// The send queue as the device sees it: ring, record, register; and its account of what is
// outstanding.
#include <verbatim/mlx5/send_queue.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

// A request that takes `blocks` blocks.
Request sized(std::uint32_t blocks, std::uint64_t id = 0) {
    return inline_request(Opcode::write, blocks == 1 ? 8 : blocks * 64 - 36, id);
}

// What BlueFlame should have written: the WQE's blocks as they lie in the ring.
std::vector<std::byte> ring_blocks(const TestDevice& device, const SeenWqe& wqe) {
    std::vector<std::byte> bytes(std::size_t{wqe.blocks()} * 64);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = device.ring()[(std::size_t{wqe.index} * 64 + i) % device.ring_bytes()];
    }
    return bytes;
}

TEST(SendQueue, the_device_sees_every_kind_of_request) {
    TestDevice device({.send_blocks = 64});
    SendQueue queue(device.queue_pair());
    std::vector<Request> asked;
    for (const Opcode opcode :
         {Opcode::write, Opcode::write_immediate, Opcode::send, Opcode::send_immediate}) {
        asked.push_back(request(opcode));
        asked.push_back(inline_request(opcode, 100, 5));
        asked.push_back(gather_request(opcode, 6));
    }
    asked.push_back(gather_request(Opcode::read, 2));
    asked.push_back(atomic_request(Opcode::compare_swap));
    asked.push_back(atomic_request(Opcode::fetch_add));
    asked.push_back(request(Opcode::nop));
    for (Request& one : asked) ASSERT_EQ(queue.post(one.get()), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), asked.size());
    for (std::size_t i = 0; i < seen.size(); ++i) expect_sees(seen[i], asked[i]);
    EXPECT_EQ(queue.outstanding(), asked.size());
}

TEST(SendQueue, a_wqe_wraps_at_every_position_of_the_smallest_ring) {
    // The smallest ring that holds a request of b blocks, started at every block of it.
    for (std::uint32_t blocks = 1; blocks <= 8; ++blocks) {
        const std::uint32_t size = std::bit_ceil(blocks);
        for (std::uint32_t start = 0; start < size; ++start) {
            TestDevice device({.send_blocks = size});
            SendQueue queue(device.queue_pair());
            for (std::uint32_t i = 0; i < start; ++i) {
                ASSERT_EQ(queue.post(sized(1).get()), Errc::ok);
                ASSERT_TRUE(queue.retire(static_cast<std::uint16_t>(i)));
            }
            device.fetch();
            Request asked = sized(blocks, start);
            ASSERT_EQ(queue.post(asked.get()), Errc::ok);
            const auto seen = device.fetch();
            ASSERT_EQ(seen.size(), 1U);
            expect_sees(seen[0], asked);
            EXPECT_EQ(queue.free_blocks(), size - blocks);
        }
    }
}

TEST(SendQueue, gathered_lists_wrap_too) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    for (std::uint16_t start = 0; start < 64; start = static_cast<std::uint16_t>(start + 3)) {
        Request asked = gather_request(Opcode::write, 9, start);  // 11 units: 3 blocks
        ASSERT_EQ(queue.post(asked.get()), Errc::ok);
        expect_sees(device.fetch().at(0), asked);
        ASSERT_EQ(queue.retire(start), start);
    }
}

TEST(SendQueue, refuses_a_post_when_full_wherever_it_stands) {
    constexpr std::uint32_t kBlocks = 4;
    for (std::uint32_t start = 0; start < 2 * kBlocks; ++start) {
        TestDevice device({.send_blocks = kBlocks});
        SendQueue queue(device.queue_pair());
        std::uint16_t counter = 0;
        for (; counter < start; ++counter) {
            ASSERT_EQ(queue.post(sized(1).get()), Errc::ok);
            ASSERT_TRUE(queue.retire(counter));
        }
        for (std::uint32_t i = 0; i < kBlocks; ++i)
            ASSERT_EQ(queue.post(sized(1, i).get()), Errc::ok);
        const std::vector<std::byte> before(device.ring(), device.ring() + device.ring_bytes());
        const std::uint32_t record = device.raw_send_record();
        EXPECT_EQ(queue.post(sized(1).get()), Errc::would_block);
        EXPECT_EQ(queue.post(sized(2).get()), Errc::would_block);
        EXPECT_EQ(std::memcmp(before.data(), device.ring(), before.size()), 0);
        EXPECT_EQ(device.raw_send_record(), record);
        EXPECT_EQ(queue.outstanding(), kBlocks);
        // One block comes free: one more fits, no two.
        EXPECT_EQ(queue.retire(counter), 0U);
        EXPECT_EQ(queue.post(sized(2).get()), Errc::would_block);
        EXPECT_EQ(queue.post(sized(1).get()), Errc::ok);
        EXPECT_EQ(queue.post(sized(1).get()), Errc::would_block);
    }
}

TEST(SendQueue, what_can_never_fit_is_not_would_block) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    EXPECT_EQ(queue.post(sized(5).get()), Errc::message_too_large);
    EXPECT_EQ(queue.post(inline_request(Opcode::write, 701).get()), Errc::message_too_large);
    EXPECT_EQ(queue.post(inline_request(Opcode::read, 8).get()), Errc::invalid_argument);
    EXPECT_EQ(queue.free_blocks(), 4U);
    EXPECT_EQ(device.raw_send_record(), 0U);
}

TEST(SendQueue, limits_that_no_wqe_can_hold_are_cut_down) {
    TestDevice device({.send_blocks = 16, .max_inline_bytes = 1023, .max_send_elements = 100});
    SendQueue queue(device.queue_pair());
    Request largest = inline_request(Opcode::write, queue.limits().max_inline_bytes);
    ASSERT_EQ(queue.post(largest.get()), Errc::ok);
    expect_sees(device.fetch().at(0), largest);
    EXPECT_TRUE(queue.retire(0));
    Request longest = gather_request(Opcode::write, queue.limits().max_elements);
    ASSERT_EQ(queue.post(longest.get()), Errc::ok);
    expect_sees(device.fetch().at(0), longest);
    EXPECT_EQ(queue.post(gather_request(Opcode::send, queue.limits().max_elements + 1).get()),
              Errc::invalid_argument);
}

TEST(SendQueue, an_unsignaled_request_retires_with_the_next_signaled_one) {
    TestDevice device({.send_blocks = 8});
    SendQueue queue(device.queue_pair());
    for (std::uint64_t id = 10; id < 14; ++id)
        ASSERT_EQ(queue.post(sized(id == 11 ? 2 : 1, id).get()), Errc::ok);
    EXPECT_EQ(queue.outstanding(), 4U);
    EXPECT_EQ(queue.retire(3), 12U);  // counters 0, 1-2, 3
    EXPECT_EQ(queue.outstanding(), 1U);
    EXPECT_EQ(queue.free_blocks(), 7U);
    EXPECT_EQ(queue.retire(4), 13U);
    EXPECT_EQ(queue.outstanding(), 0U);
}

TEST(SendQueue, nothing_retires_twice_or_from_a_wrong_counter) {
    TestDevice device({.send_blocks = 8});
    SendQueue queue(device.queue_pair());
    EXPECT_FALSE(queue.retire(0));
    ASSERT_EQ(queue.post(sized(3, 1).get()), Errc::ok);
    ASSERT_EQ(queue.post(sized(1, 2).get()), Errc::ok);
    EXPECT_FALSE(queue.retire(1));  // the middle of a WQE
    EXPECT_FALSE(queue.retire(4));  // not posted
    EXPECT_FALSE(queue.retire(8));
    EXPECT_FALSE(queue.retire(0xffff));
    EXPECT_EQ(queue.outstanding(), 2U);
    EXPECT_EQ(queue.retire(0), 1U);
    EXPECT_FALSE(queue.retire(0));
    EXPECT_EQ(queue.retire(3), 2U);
    EXPECT_FALSE(queue.retire(3));
}

TEST(SendQueue, a_list_is_posted_under_one_doorbell_or_not_at_all) {
    TestDevice device({.send_blocks = 8});
    int rings = 0;
    device.doorbell_hook = {
        [](void* context, const volatile void*) noexcept { ++*static_cast<int*>(context); },
        &rings};
    SendQueue queue(device.queue_pair());
    std::vector<Request> asked{sized(2, 1), gather_request(Opcode::read, 1, 2), sized(1, 3)};
    std::vector<WorkRequest> work;
    for (Request& one : asked) work.push_back(one.get());
    ASSERT_EQ(queue.post(std::span<const WorkRequest>(work)), Errc::ok);
    EXPECT_EQ(rings, 1);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) expect_sees(seen[i], asked[i]);
    // The register names the last WQE of the list.
    EXPECT_EQ(std::memcmp(device.register_half(0), seen[2].bytes.data(), 8), 0);

    std::vector<WorkRequest> five(5, work[2]);
    EXPECT_EQ(queue.post(std::span<const WorkRequest>(five)),
              Errc::would_block);  // 4 blocks are free
    work[1].inline_payload = asked[0].inline_payload;
    EXPECT_EQ(queue.post(std::span<const WorkRequest>(work)), Errc::invalid_argument);
    EXPECT_EQ(queue.post(std::span<const WorkRequest>()), Errc::ok);
    EXPECT_EQ(rings, 1);
    EXPECT_TRUE(device.fetch().empty());
    std::vector<WorkRequest> nine(9, work[2]);
    EXPECT_EQ(queue.post(std::span<const WorkRequest>(nine)), Errc::message_too_large);
    EXPECT_EQ(queue.outstanding(), 3U);
}

TEST(Doorbell, blueflame_repeats_the_whole_wqe_in_alternate_halves) {
    TestDevice device({.send_blocks = 8});
    SendQueue queue(device.queue_pair());
    int half = 0;
    for (const std::uint32_t blocks : {1U, 2U, 4U, 3U, 4U, 1U, 4U, 2U}) {  // some of them wrap
        ASSERT_EQ(queue.post(sized(blocks).get()), Errc::ok);
        const SeenWqe seen = device.fetch().at(0);
        const auto expected = ring_blocks(device, seen);
        EXPECT_EQ(std::memcmp(device.register_half(half), expected.data(), expected.size()), 0)
            << blocks;
        half ^= 1;
        ASSERT_TRUE(queue.retire(seen.index));
    }
}

TEST(Doorbell, what_does_not_fit_the_half_is_rung_by_its_first_word) {
    TestDevice device({.send_blocks = 16, .blueflame_bytes = 128});
    SendQueue queue(device.queue_pair());
    const std::vector<std::byte> untouched(64, StrictRegister::kUnwritten);
    ASSERT_EQ(queue.post(sized(3).get()), Errc::ok);
    EXPECT_EQ(std::memcmp(device.register_half(0), device.fetch().at(0).bytes.data(), 8), 0);
    EXPECT_EQ(std::memcmp(device.register_half(0) + 8, untouched.data(), 56), 0);
    ASSERT_EQ(queue.post(sized(2).get()), Errc::ok);
    EXPECT_EQ(std::memcmp(device.register_half(1), device.fetch().at(0).bytes.data(), 128), 0);
}

TEST(Doorbell, a_device_without_blueflame_has_one_register_of_eight_bytes) {
    TestDevice device({.blueflame_bytes = 0});
    SendQueue queue(device.queue_pair());
    const std::vector<std::byte> untouched(64, StrictRegister::kUnwritten);
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(queue.post(sized(1).get()), Errc::ok);
        EXPECT_EQ(std::memcmp(device.register_half(0), device.fetch().at(0).bytes.data(), 8), 0);
        EXPECT_EQ(std::memcmp(device.register_half(0) + 8, untouched.data(), 56), 0);
    }
}

TEST(Doorbell, the_hook_runs_after_record_and_register_with_the_half_written) {
    struct Seen {
        TestDevice* device;
        std::vector<const volatile void*> halves;
        std::vector<std::uint16_t> records;
        std::vector<bool> register_matches;
    } seen{};
    TestDevice device;
    seen.device = &device;
    device.doorbell_hook = {
        [](void* context, const volatile void* half) noexcept {
            auto& log = *static_cast<Seen*>(context);
            log.halves.push_back(half);
            log.records.push_back(log.device->send_record());
            const auto wqe = log.device->fetch().at(0);
            log.register_matches.push_back(
                std::memcmp(const_cast<const void*>(half), wqe.bytes.data(), 48) == 0);
        },
        &seen};
    SendQueue queue(device.queue_pair());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.post(sized(1).get()), Errc::ok);
    EXPECT_EQ(seen.halves,
              (std::vector<const volatile void*>{device.register_half(0), device.register_half(1),
                                                 device.register_half(0)}));
    EXPECT_EQ(seen.records, (std::vector<std::uint16_t>{1, 2, 3}));
    EXPECT_EQ(seen.register_matches, (std::vector<bool>{true, true, true}));
}

TEST(Doorbell, counters_wrap_at_sixteen_bits_and_the_record_stays_below) {
    TestDevice device({.send_blocks = 4});
    SendQueue queue(device.queue_pair());
    for (std::uint32_t counter = 0; counter < 0x20010; ++counter) {
        ASSERT_EQ(queue.post(sized(1, counter).get()), Errc::ok);
        ASSERT_EQ(be32toh(device.raw_send_record()), (counter + 1) & 0xffff);
        const auto seen = device.fetch();
        ASSERT_EQ(seen.at(0).index, static_cast<std::uint16_t>(counter));
        ASSERT_EQ(queue.retire(seen[0].index), counter);
    }
}

TEST(SendQueue, reset_starts_over) {
    TestDevice device({.send_blocks = 8});
    SendQueue queue(device.queue_pair());
    for (int i = 0; i < 3; ++i) ASSERT_EQ(queue.post(sized(2).get()), Errc::ok);
    queue.reset();
    device.reset();
    EXPECT_EQ(queue.generation(), 1U);
    EXPECT_EQ(queue.outstanding(), 0U);
    EXPECT_EQ(queue.free_blocks(), 8U);
    EXPECT_EQ(device.raw_send_record(), 0U);
    EXPECT_FALSE(queue.retire(0));
    Request asked = sized(1, 9);
    ASSERT_EQ(queue.post(asked.get()), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].index, 0);
    expect_sees(seen[0], asked);
    EXPECT_EQ(queue.retire(0), 9U);
}

TEST(SendQueue, a_view_that_cannot_work_is_refused_by_name) {
    TestDevice device;
    const auto refused = [&](auto spoil) {
        QueuePairView view = device.queue_pair();
        spoil(view);
        EXPECT_THROW(SendQueue{view}, Error);
    };
    refused([](QueuePairView& view) { view.send_buffer = nullptr; });
    refused([](QueuePairView& view) { view.send_buffer += 16; });
    refused([](QueuePairView& view) { view.send_blocks = 0; });
    refused([](QueuePairView& view) { view.send_blocks = 12; });
    refused([](QueuePairView& view) { view.send_blocks = 1U << 16; });
    refused([](QueuePairView& view) { view.doorbell_record = nullptr; });
    refused([](QueuePairView& view) { view.doorbell_register = nullptr; });
    refused([](QueuePairView& view) { view.doorbell_register = view.doorbell_register + 8; });
    refused([](QueuePairView& view) { view.blueflame_bytes = 100; });
}

}  // namespace
}  // namespace verbatim::mlx5
