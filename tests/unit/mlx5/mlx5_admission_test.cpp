// The admission of posts: whatever form a request comes in, and whatever came before it, it is
// posted only where it fits, behind the fence that it needs, and in the way that the register
// takes.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prebuilt_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

using Write8 = PreparedWrite8;

const auto kSameWrites = [](std::uint32_t i) {
    return Listed{std::uint64_t{0x1000} + i * 8, std::uint64_t{i}};
};

class EachRegister : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Admission, EachRegister, testing::Values(0U, 64U, 128U, 256U, 512U));

TEST_P(EachRegister, takes_prepared_posts_behind_plain_ones_until_it_is_full) {
    for (const std::uint32_t plain_blocks : {1U, 2U, 3U}) {
        TestDevice device({.send_blocks = 16, .blueflame_bytes = GetParam()});
        SendQueue queue(device.queue_pair());
        Write8 write(queue, inline_request(Opcode::write, 8).get());
        std::uint32_t used = 0;
        for (std::uint64_t id = 0; id < 40 && !HasFailure(); ++id) {
            const bool plain = id % 3 == 0;
            const std::uint32_t blocks = plain ? plain_blocks : 1;
            Request asked = inline_request(Opcode::write, blocks == 1 ? 8 : blocks * 64 - 36, id);
            const Errc expected = used + blocks > 16 ? Errc::would_block : Errc::ok;
            ASSERT_EQ(plain ? queue.post(asked.get()) : write.post(id, 0x1000, id), expected);
            if (expected == Errc::ok) used += blocks;
            ASSERT_EQ(queue.free_blocks(), 16 - used);
        }
    }
}

TEST_P(EachRegister, takes_lists_of_prepared_posts_behind_plain_ones_until_it_is_full) {
    TestDevice device({.send_blocks = 16, .blueflame_bytes = GetParam()});
    SendQueue queue(device.queue_pair());
    Write8 write(queue, inline_request(Opcode::write, 8).get());
    ASSERT_EQ(queue.post(inline_request(Opcode::write, 8).get()), Errc::ok);
    ASSERT_EQ(write.post_list(1, 14, kSameWrites), Errc::ok);
    EXPECT_EQ(write.post_list(15, 2, kSameWrites), Errc::would_block);
    ASSERT_EQ(write.post(15, 0x1000, std::uint64_t{0}), Errc::ok);
    EXPECT_EQ(write.post(16, 0x1000, std::uint64_t{0}), Errc::would_block);
    EXPECT_EQ(queue.free_blocks(), 0U);
    EXPECT_EQ(device.fetch().size(), 16U);
}

TEST_P(EachRegister, keeps_the_fence_behind_a_key_update_in_lists_of_every_length) {
    for (const std::uint32_t count : {1U, 2U, 5U}) {
        TestDevice device({.send_blocks = 16, .blueflame_bytes = GetParam()});
        SendQueue queue(device.queue_pair());
        Write8 write(queue, inline_request(Opcode::write, 8).get());
        ASSERT_EQ(queue.post(request(Opcode::local_invalidate).get()), Errc::ok);
        ASSERT_EQ(write.post_list(1, count, kSameWrites), Errc::ok);
        ASSERT_EQ(write.post_list(9, count, kSameWrites), Errc::ok);
        const std::vector<SeenWqe> seen = device.fetch();
        ASSERT_EQ(seen.size(), 2 * count + 1);
        for (std::uint32_t i = 1; i < seen.size(); ++i) {
            EXPECT_EQ(seen[i].flags & kSmallFence, i == 1 ? kSmallFence : 0) << count << ", " << i;
            EXPECT_EQ(seen[i].signaled(), i == count || i == 2 * count) << count << ", " << i;
        }
    }
}

// The window ends with the ring; what does not ask it must begin at the ring's start, too.
TEST_P(EachRegister, begins_a_lap_with_any_form) {
    for (int form = 0; form < 4; ++form) {
        TestDevice device({.send_blocks = 4, .blueflame_bytes = GetParam()});
        SendQueue queue(device.queue_pair());
        Write8 write(queue, {.opcode = Opcode::write});
        for (std::uint16_t i = 0; i < 4; ++i) {
            ASSERT_EQ(write.post(i, 0x1000, std::uint64_t{i}), Errc::ok);
            ASSERT_EQ(queue.retire(i), i);
        }
        device.fetch();
        Request asked = form == 0 ? request(Opcode::local_invalidate, 99)
                                  : inline_request(Opcode::write, form == 1 ? 8 : 100, 99);
        const std::array<WorkRequest, 1> list{asked.get()};
        ASSERT_EQ(form == 3 ? queue.post(list) : queue.post(asked.get()), Errc::ok);
        const SeenWqe seen = device.fetch().back();
        expect_sees(seen, asked);
        EXPECT_EQ(queue.retire(seen.index), 99U) << form;
    }
}

// A device in the error state flushes what is in the ring one by one, the no-ops before prebuilt
// requests too: between two of them room is no multiple of a request's.
TEST(PrebuiltAdmission, a_full_queue_whose_fillers_are_flushed_takes_nothing) {
    TestDevice device({.send_blocks = 16});
    PrebuiltQueue<Opcode::read, Elements<10>> queue(device.queue_pair(),
                                                    gather_request(Opcode::read, 10).get());
    CompletionQueue completions(device.completion_queue());
    completions.attach(&queue, nullptr);
    for (std::uint64_t id = 0; id != 4; ++id)
        ASSERT_EQ(queue.post(id, 0x1000, kUnchanged), Errc::ok);
    const std::vector<SeenWqe> seen = device.fetch();
    ASSERT_EQ(seen.size(), 8U);
    std::uint64_t id = 4;
    std::array<Completion, 1> polled;
    for (std::size_t i = 0; i != seen.size(); ++i) {
        device.fail(seen[i], MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
        const bool filler = i % 2 == 0;
        ASSERT_EQ(completions.poll(polled), filler ? 0U : 1U);
        ASSERT_EQ(queue.post(id, 0x1000, kUnchanged), filler ? Errc::would_block : Errc::ok);
        if (!filler) ++id;
        ASSERT_LE(queue.free_blocks(), 4U);
    }
    EXPECT_EQ(queue.outstanding(), 4U);
}

}  // namespace
}  // namespace verbatim::mlx5
