// Laps of a ring end early, in a model that keeps for each step of the ring whether it is unread.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "ring/send_positions.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

constexpr int kRounds = test::kSanitized ? 40 : 200;
constexpr std::size_t kBytes = 8 * ring::kShortLap, kStep = ring::kAlignment;

// A sender and the receiver's memory. Nothing unread may be written over.
class LapModel {
  public:
    explicit LapModel(std::size_t bytes = kBytes)
        : bytes_(bytes), at_(bytes), unread_(bytes / kStep) {}

    // As RingSender does it. False: no room.
    bool send(std::size_t slot) {
        if (at_.is_at_turn(slot)) {
            const SendPositions::Turn turn = at_.turn(slot);
            if (!turn.fits) return false;
            if (turn.skip != 0) {
                pad(turn.skip);
                at_.turned(turn);
                ++(turn.early ? early : full);
            }
        }
        if (!at_.has_room(slot)) return false;
        write({slot, slot});
        return true;
    }
    bool pass_unread() {
        const std::size_t bytes = at_.unread();
        if (bytes == 0) return false;
        pad(bytes);
        at_.passed();
        ++passed;
        return true;
    }
    bool send_or_pass(std::size_t slot) { return send(slot) || (pass_unread() && send(slot)); }

    // The receiver consumes the next record. False: there is none.
    bool consume() {
        if (records_.empty()) return false;
        for (std::size_t i = 0; i < records_.front().written; i += kStep)
            unread_[at_.offset_of(consumed_ + i) / kStep] = false;
        consumed_ += records_.front().bytes;
        records_.pop_front();
        return true;
    }
    void consume_all() {
        while (consume()) {
        }
    }
    // Its credit reaches the sender.
    void tell() { ASSERT_TRUE(at_.gain(consumed_ - at_.consumed())); }

    std::uint64_t untold() const { return consumed_ - at_.consumed(); }
    std::uint64_t ahead() const { return at_.sent() - consumed_; }
    std::size_t farthest = 0;  // offset in the ring that was written
    int early = 0, full = 0, passed = 0;

  private:
    struct Record {
        std::size_t bytes, written;
    };
    void pad(std::size_t bytes) {
        ASSERT_GT(bytes, 0u);
        ASSERT_EQ(bytes % kStep, 0u);
        ASSERT_LE(bytes, at_.to_end(at_.sent()));
        write({bytes, kStep});
    }
    void write(Record record) {
        const std::size_t at = at_.offset_of(at_.sent());
        ASSERT_LE(at + record.bytes, bytes_) << "a record lies within one lap";
        for (std::size_t i = 0; i < record.written; i += kStep) {
            ASSERT_FALSE(unread_[(at + i) / kStep]) << "written over at " << at + i;
            unread_[(at + i) / kStep] = true;
        }
        farthest = std::max(farthest, at + record.written);
        records_.push_back(record);
        at_.advance(record.bytes);
        ASSERT_LE(ahead(), 2 * bytes_);
    }

    std::size_t bytes_;
    SendPositions at_;
    std::uint64_t consumed_ = 0;
    std::vector<bool> unread_;
    std::deque<Record> records_;
};

std::size_t slot_of(std::mt19937_64& random) {
    const std::size_t most = ring::max_payload(kBytes);
    return ring::slot_bytes(random() % 8 == 0 ? random() % (most + 1) : random() % 300);
}

TEST(RingLaps, a_receiver_that_keeps_up_keeps_the_sender_at_the_beginning) {
    LapModel model;
    for (int i = 0; i < 100'000; ++i) {
        ASSERT_TRUE(model.send(64));
        model.consume_all();
        model.tell();
    }
    EXPECT_GT(model.early, 300);
    EXPECT_EQ(model.full, 0);
    EXPECT_LE(model.farthest, ring::kShortLap + 64);
}

TEST(RingLaps, a_receiver_that_stands_still_gets_nearly_the_whole_ring_filled) {
    for (const std::size_t before : {0u, 100u, 255u, 256u, 300u, 511u, 512u, 700u}) {
        LapModel model;
        for (std::size_t i = 0; i < before; ++i) {
            ASSERT_TRUE(model.send(64));
            model.consume_all();
            model.tell();
        }
        std::size_t sent = 0;
        while (!HasFatalFailure() && model.send_or_pass(64)) sent += 64;
        EXPECT_GE(sent, kBytes - ring::kShortLap - 256) << "after " << before;
    }
}

TEST(RingLaps, nothing_unread_is_written_over_whatever_the_receiver_does) {
    std::mt19937_64 random(17);
    int early = 0, full = 0, passed = 0;
    for (int round = 0; round < kRounds; ++round) {
        LapModel model;
        const unsigned consumes = random() % 8, tells = random() % 8;
        for (int i = 0; i < 3000 && !HasFatalFailure(); ++i) {
            if (random() % 2 == 0) (void)model.send_or_pass(slot_of(random));
            if (random() % 8 <= consumes) (void)model.consume();
            if (random() % 8 <= tells) model.tell();
        }
        early += model.early, full += model.full, passed += model.passed;
    }
    EXPECT_GT(early, 5 * kRounds);
    EXPECT_GT(full, 5 * kRounds);
    EXPECT_GT(passed, kRounds / 2) << "each way was gone";
}

// The receiver announces a credit once half of the ring is consumed and not told: what it has not
// told then must not be what the sender waits for.
TEST(RingLaps, a_sender_that_is_told_each_half_never_waits_for_ever) {
    std::mt19937_64 random(18);
    for (int round = 0; round < kRounds; ++round) {
        LapModel model;
        const unsigned tells = random() % 64;
        for (int i = 0; i < 1000 && !HasFatalFailure(); ++i) {
            const std::size_t slot = slot_of(random);
            if (model.send_or_pass(slot)) {
                if (random() % 2 == 0) (void)model.consume();
                if (random() % 64 < tells) model.tell();
                continue;
            }
            model.consume_all();
            ASSERT_GE(model.untold(), kBytes / 2) << "nobody would tell";
            model.tell();
            ASSERT_TRUE(model.send_or_pass(slot)) << slot;
        }
    }
}

TEST(RingLaps, small_rings_have_no_short_laps) {
    LapModel model(4 * ring::kShortLap);
    for (int i = 0; i < 10'000; ++i) {
        ASSERT_TRUE(model.send(64));
        model.consume_all();
        model.tell();
    }
    EXPECT_EQ(model.early, 0);
    EXPECT_EQ(model.farthest, 4 * ring::kShortLap);
}

}  // namespace
}  // namespace verbatim
