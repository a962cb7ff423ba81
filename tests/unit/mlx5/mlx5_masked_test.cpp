// Masked atomics, and atomics of 4 bytes, which travel as masked ones: fresh, in lists, prepared,
// and what their completions say. The layout is written out here byte by byte.
#include <gtest/gtest.h>

#include <cstring>

#include <verbatim/mlx5/completion_queue.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

constexpr std::uint32_t kBytes[] = {4, 8};

void put(std::vector<std::byte>& to, std::uint64_t value, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < bytes; ++i)
        to.push_back(static_cast<std::byte>(value >> 8 * (bytes - 1 - i)));
}

// Operands as they lie in the WQE.
std::vector<std::byte> operands(const WorkRequest& work, std::uint32_t bytes) {
    const std::uint64_t all = ~std::uint64_t{0};
    std::vector<std::byte> result;
    switch (work.opcode) {
        case Opcode::masked_compare_swap:
        case Opcode::compare_swap: {
            const bool masks = work.opcode == Opcode::masked_compare_swap;
            put(result, work.swap_or_add, bytes);
            put(result, work.compare, bytes);
            put(result, masks ? work.swap_mask : all, bytes);
            put(result, masks ? work.compare_mask : all, bytes);
            break;
        }
        default:
            put(result, work.swap_or_add, bytes);
            put(result, work.opcode == Opcode::fetch_add ? 0 : work.field_ends, bytes);
            result.resize(16);
    }
    return result;
}

void expect_masked(const SeenWqe& seen, Request& asked) {
    const WorkRequest& work = asked.get();
    const bool swaps =
        work.opcode == Opcode::masked_compare_swap || work.opcode == Opcode::compare_swap;
    const std::uint32_t bytes = asked.elements[0].bytes;
    EXPECT_EQ(seen.opcode, swaps ? MLX5_OPCODE_ATOMIC_MASKED_CS : MLX5_OPCODE_ATOMIC_MASKED_FA);
    EXPECT_EQ(seen.modifier, bytes == 4 ? 8 : 9);
    EXPECT_EQ(seen.signaled(), work.signaled);
    EXPECT_EQ((seen.flags & MLX5_WQE_CTRL_FENCE) != 0, work.fence);
    EXPECT_EQ(be64toh(seen.remote.value().raddr), work.remote_address);
    EXPECT_EQ(be32toh(seen.remote.value().rkey), work.remote_key);
    EXPECT_EQ(seen.masked_operands, operands(work, bytes));
    ASSERT_EQ(seen.elements.size(), 1u);
    EXPECT_EQ(be32toh(seen.elements[0].byte_count), bytes);
    EXPECT_EQ(be64toh(seen.elements[0].addr), asked.elements[0].address);
}

// Every request there is.
std::vector<Request> matrix() {
    std::vector<Request> all;
    for (const std::uint32_t bytes : kBytes)
        for (const Opcode opcode : {Opcode::masked_compare_swap, Opcode::masked_fetch_add})
            all.push_back(masked_request(opcode, bytes));
    all.push_back(masked_request(Opcode::compare_swap, 4));
    all.push_back(masked_request(Opcode::fetch_add, 4));
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].work.signaled = i % 2 == 0;
        all[i].work.fence = i % 3 == 0;
    }
    return all;
}

TEST(Masked, posts_are_written_out_at_every_place_of_the_ring) {
    TestDevice device({.send_blocks = 8});
    SendQueue queue(device.queue_pair());
    for (int i = 0; i < 100; ++i)
        for (Request& asked : matrix()) {
            ASSERT_EQ(queue.post(asked.get()), Errc::ok);
            const SeenWqe seen = device.fetch().at(0);
            expect_masked(seen, asked);
            ASSERT_TRUE(queue.retire(seen.index));
        }
}

TEST(Masked, lists_are_what_single_posts_are) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    std::vector<Request> all = matrix();
    all.push_back(inline_request(Opcode::write, 8));
    std::vector<WorkRequest> works;
    for (Request& asked : all) works.push_back(asked.get());
    ASSERT_EQ(queue.post(works), Errc::ok);
    const auto seen = device.fetch();
    ASSERT_EQ(seen.size(), all.size());
    for (std::size_t i = 0; i + 1 < all.size(); ++i) expect_masked(seen[i], all[i]);
    expect_sees(seen.back(), all.back());
}

TEST(Masked, behind_a_key_update_they_wait_for_it) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    for (const Opcode opcode : {Opcode::masked_fetch_add, Opcode::fetch_add}) {
        ASSERT_EQ(queue.post(request(Opcode::local_invalidate).get()), Errc::ok);
        Request asked = masked_request(opcode, 4);
        ASSERT_EQ(queue.post(asked.get()), Errc::ok);
        ASSERT_EQ(queue.post(asked.get()), Errc::ok);
        const SeenWqe update = device.wqe_at(0 + 0);
        EXPECT_EQ(update.opcode, 0x25);
        const auto index = static_cast<std::uint16_t>(update.blocks());
        EXPECT_EQ(device.wqe_at(index).flags & kSmallFence, kSmallFence);
        EXPECT_EQ(device.wqe_at(static_cast<std::uint16_t>(index + 1)).flags & kSmallFence, 0);
        queue.reset();
        device.reset();
    }
}

TEST(Masked, devices_without_them_refuse_and_so_are_other_shapes) {
    TestDevice device({.masked_atomics = false}), able;
    SendQueue without(device.queue_pair()), with(able.queue_pair());
    for (Request& asked : matrix()) {
        EXPECT_EQ(without.post(asked.get()), Errc::unsupported);
        Request odd = asked;
        odd.work.remote_address += 2;
        EXPECT_EQ(with.post(odd.get()), Errc::invalid_argument);
        odd = asked;
        odd.elements.push_back(odd.elements[0]);
        EXPECT_EQ(with.post(odd.get()), Errc::invalid_argument);
        if (is_masked_atomic(asked.work.opcode)) {
            odd = asked;
            odd.elements[0].bytes = 16;
            EXPECT_EQ(with.post(odd.get()), Errc::invalid_argument);
            odd = asked;
            odd.inline_payload = pattern(4);
            EXPECT_EQ(with.post(odd.get()), Errc::invalid_argument);
        }
    }
    Request eight = atomic_request(Opcode::fetch_add);
    EXPECT_EQ(without.post(eight.get()), Errc::ok);
    EXPECT_EQ(without.outstanding(), 1u);
    EXPECT_EQ(with.outstanding(), 0u);
}

TEST(Masked, completions_say_how_many_bytes_came_back_and_scatter_them) {
    TestDevice device({.send_blocks = 32});
    SendQueue queue(device.queue_pair());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&queue, nullptr);
    for (Request& asked : matrix()) {
        std::uint64_t result = 0;
        asked.elements[0].address = reinterpret_cast<std::uint64_t>(&result);
        asked.work.id = 9;
        ASSERT_EQ(queue.post(asked.get()), Errc::ok);
        for (std::size_t i = 0; i < 8; ++i) device.scatter[i] = std::byte(i + 1);
        const std::uint32_t bytes = asked.elements[0].bytes;
        device.complete(device.fetch().at(0), bytes, MLX5_INLINE_SCATTER_32);
        Completion completion;
        ASSERT_EQ(completions.poll(std::span(&completion, 1)), 1u);
        EXPECT_EQ(completion.id, 9u);
        EXPECT_EQ(completion.opcode, masked_opcode(asked.work.opcode));
        EXPECT_EQ(completion.bytes, bytes);
        EXPECT_EQ(result, bytes == 4 ? 0x01020304 : 0x0102030405060708) << "big endian there";
    }
}

}  // namespace
}  // namespace verbatim::mlx5
