// Strict doorbells: what a correct driver does is accepted, every single deviation is refused and
// named.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>

#include "softnic_end.hpp"
#include "softqueue/queue_memory.hpp"
#include "softqueue/strict_doorbell.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::be32;
using mlx5::ControlSegment;

// A driver by hand: fills the ring, the record and the register as it is told.
class StrictDoorbells : public testing::Test {
  protected:
    static constexpr std::uint32_t kNumber = 0x1234;
    QueuePairMemory memory{QueuePairOptions{.send_blocks = 8}, kNumber};
    const mlx5::QueuePairView& view = memory.view();
    FailureText failure;
    StrictDoorbell bell{view, failure};
    std::uint16_t next = 0;
    int half = 0;

    std::byte* block(std::uint16_t index) const { return view.send_buffer + (index & 7u) * 64; }
    // A WQE of `blocks` blocks at next.
    std::uint16_t place(std::uint32_t blocks, std::uint32_t number = kNumber) {
        const std::uint16_t index = next;
        for (std::uint32_t i = 0; i < blocks; ++i)
            std::memset(block(static_cast<std::uint16_t>(index + i)), static_cast<int>(0x10 + i),
                        64);
        ControlSegment control;
        control.opmod_index_opcode = be32(std::uint32_t{index} << 8 | 0x08);
        control.number_units = be32(number << 8 | blocks * 4);
        std::memcpy(block(index), &control, sizeof control);
        next = static_cast<std::uint16_t>(next + blocks);
        return index;
    }
    void record(std::uint16_t counter) const {
        view.doorbell_record[mlx5::kRecordSend] = be32(counter).raw();
    }
    volatile std::byte* register_half() const {
        return view.doorbell_register + half * static_cast<int>(view.blueflame_bytes);
    }
    void copy(std::uint16_t index, std::size_t bytes) const {
        for (std::size_t i = 0; i < bytes; ++i)
            register_half()[i] = *(view.send_buffer + (index * 64u + i) % (8 * 64));
    }
    bool ring() {
        const bool good = bell.accept(register_half());
        half ^= 1;
        return good;
    }
    std::string why() const { return std::string(failure.view()); }
};

TEST_F(StrictDoorbells, correct_doorbells_and_copies_are_accepted_over_laps) {
    for (int i = 0; i < 50; ++i) {
        const std::uint32_t blocks = 1 + static_cast<std::uint32_t>(i) % 4;
        const std::uint16_t index = place(blocks);
        record(next);
        copy(index, i % 3 == 0 ? 8 : blocks * 64);
        ASSERT_TRUE(ring()) << i << ": " << why();
        ASSERT_EQ(bell.counter(), next);
    }
}

TEST_F(StrictDoorbells, chain_is_rung_with_its_last_request) {
    place(1);
    place(2);
    const std::uint16_t last = place(1);
    record(next);
    copy(last, 8);
    EXPECT_TRUE(ring()) << why();
}

TEST_F(StrictDoorbells, request_behind_a_key_update_needs_a_fence) {
    for (const bool one_doorbell : {true, false}) {
        for (const std::uint8_t fence : {mlx5::kFence, mlx5::kSmallFence, std::uint8_t{0}}) {
            bell.reset();
            failure.clear();
            next = 0;
            half = 0;
            const std::uint16_t update = place(2);
            *(block(update) + 3) = std::byte{0x25};
            if (!one_doorbell) {
                record(next);
                copy(update, 8);
                ASSERT_TRUE(ring()) << why();
            }
            const std::uint16_t index = place(1);
            *(block(index) + offsetof(ControlSegment, fence_completion_event)) = std::byte{fence};
            record(next);
            copy(index, 8);
            EXPECT_EQ(ring(), fence != 0) << why();
            if (fence == 0) {
                EXPECT_NE(why().find("without a fence"), std::string::npos) << why();
            }
        }
    }
}

TEST_F(StrictDoorbells, missing_record_is_refused) {
    copy(place(1), 8);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("record still holds 0"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, record_beyond_the_ring_is_refused) {
    copy(place(1), 8);
    record(9);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("ring of 8 blocks"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, record_that_cuts_a_request_is_refused) {
    copy(place(3), 8);
    record(2);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("has 3 blocks"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, wrong_queue_number_is_refused) {
    copy(place(1, kNumber + 1), 8);
    record(next);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("queue pair 4661"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, wrong_index_is_refused) {
    place(1);
    next = 0;
    ControlSegment control;
    control.opmod_index_opcode = be32(1 << 8 | 8);
    control.number_units = be32(kNumber << 8 | 4);
    std::memcpy(block(0), &control, sizeof control);
    copy(0, 8);
    record(1);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("says index 1"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, register_of_another_request_is_refused) {
    const std::uint16_t first = place(1);
    place(1);
    record(next);
    copy(first, 8);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("register got index 0"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, altered_copy_is_refused) {
    for (const std::size_t wrong : {8u, 63u, 64u, 127u}) {
        const std::uint16_t index = place(2);
        record(next);
        copy(index, 128);
        register_half()[wrong] = std::byte{0xee};
        EXPECT_FALSE(ring());
        EXPECT_NE(why().find("byte " + std::to_string(wrong)), std::string::npos) << why();
        failure.clear();
        bell.reset();
        next = 0;
        half = 0;
    }
}

TEST_F(StrictDoorbells, short_copy_is_refused) {
    const std::uint16_t index = place(2);
    record(next);
    copy(index, 64);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("byte 64"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, same_half_twice_is_refused) {
    copy(place(1), 64);
    record(next);
    ASSERT_TRUE(ring());
    half = 0;
    copy(place(1), 8);
    record(next);
    EXPECT_FALSE(ring());
    EXPECT_NE(why().find("must alternate"), std::string::npos) << why();
}

TEST_F(StrictDoorbells, words_alone_may_stay_in_one_half) {
    for (int i = 0; i < 3; ++i) {
        half = 0;
        copy(place(1), 8);
        record(next);
        ASSERT_TRUE(ring()) << why();
    }
    half = 0;
    copy(place(1), 64);
    record(next);
    EXPECT_FALSE(ring()) << "the device may still be reading the word";
}

TEST_F(StrictDoorbells, address_outside_the_register_is_refused) {
    place(1);
    record(next);
    EXPECT_FALSE(bell.accept(view.doorbell_register + 8));
    EXPECT_NE(why().find("two halves"), std::string::npos) << why();
}

// End to end: a refused doorbell fails the request and says why; nothing behind it is executed.
TEST(StrictDevice, refused_doorbell_fails_the_queue_pair) {
    Pair pair;
    const mlx5::QueuePairView& view = pair.a.queue_pair->view();
    ASSERT_EQ(pair.a.post_write(pattern(8), 0), Errc::ok);
    ASSERT_EQ(pair.a.poll().size(), 1u);
    // A doorbell in the wrong half, by hand.
    view.doorbell_hook.call(view.doorbell_hook.context, view.doorbell_register);
    EXPECT_EQ(pair.a.queue_pair->state(), QueuePairState::error);
    EXPECT_NE(failure_text(*pair.a.queue_pair), "");
    EXPECT_TRUE(pair.a.poll().empty());
    EXPECT_EQ(pair.a.completions->strays(), 1u) << "an error completion for a request never posted";
}

// Without a register write a strict device does nothing.
TEST(StrictDevice, record_alone_executes_nothing) {
    Pair pair;
    mlx5::QueuePairView silent = pair.a.queue_pair->view();
    silent.doorbell_hook = {};
    mlx5::SendQueue queue(silent);
    pair.a.completions->detach(silent.number);
    pair.a.completions->attach(&queue, nullptr);
    mlx5::WorkRequest write = pair.a.request(mlx5::Opcode::write);
    const auto payload = pattern(8);
    write.inline_payload = payload;
    ASSERT_EQ(queue.post(write), Errc::ok);
    EXPECT_TRUE(pair.a.poll().empty());
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 0u);
    pair.a.completions->detach(silent.number);
}

}  // namespace
}  // namespace verbatim::softnic::test
