// The receiving end of a message ring against a model and against forged bytes, in plain memory.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ring/ring_receiver.hpp"

namespace verbatim {
namespace {

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0u;

// Ring memory and a sender's hand in it.
class Ring {
  public:
    explicit Ring(std::size_t bytes = 4096)
        : bytes_(bytes), words_(new std::uint64_t[bytes / 8]{}) {}
    std::byte* memory() { return reinterpret_cast<std::byte*>(words_.get()); }
    std::size_t bytes() const { return bytes_; }
    std::uint64_t position() const { return position_; }
    std::size_t offset() const { return position_ & (bytes_ - 1); }
    std::size_t to_end() const { return bytes_ - offset(); }

    void word(std::size_t at, std::uint64_t value) {
        std::memcpy(memory() + (at & (bytes_ - 1)), &value, sizeof value);
    }
    // Bytes of a record, all but its trailer.
    void put_body(const std::string& payload, unsigned kind, std::uint32_t credit) {
        word(offset(), ring::Word0{static_cast<std::uint32_t>(payload.size()), kind, credit}.raw());
        std::memcpy(memory() + offset() + 8, payload.data(), payload.size());
    }
    void put_trailer(std::size_t length) {
        word(offset() + 8 + ring::round_up(length, 8), ring::tag(kKey, position_));
    }
    void put(const std::string& payload, unsigned kind = 1, std::uint32_t credit = 0) {
        put_body(payload, kind, credit);
        put_trailer(payload.size());
        position_ += ring::slot_bytes(payload.size());
    }
    void put_pad() {
        word(offset(), ring::Word0{static_cast<std::uint32_t>(to_end()), ring::kPad, 0}.raw());
        word(offset() + 8, ring::tag(kKey, position_));
        position_ += to_end();
    }

  private:
    std::size_t bytes_;
    std::unique_ptr<std::uint64_t[]> words_;
    std::uint64_t position_ = 0;
};

std::string text_of(const Message& message) {
    return {reinterpret_cast<const char*>(message.payload.data()), message.payload.size()};
}

TEST(RingReceiver, hands_out_what_was_put_in_order_over_many_laps) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    std::mt19937_64 random(3);
    for (int i = 0; i < 5000; ++i) {
        const std::size_t most = ring::max_payload(ring.bytes());
        const std::size_t length = i % 50 == 0 ? most : i % 7 == 0 ? 0 : random() % (most + 1);
        std::string payload(length, '\0');
        for (char& c : payload) c = static_cast<char>(random());
        if (ring::slot_bytes(length) > ring.to_end()) ring.put_pad();
        const auto kind = static_cast<unsigned>(random() % 14);
        const auto credit = static_cast<std::uint32_t>(random());
        ring.put(payload, kind, credit);
        Message message;
        std::uint32_t received_credit = 0;
        ASSERT_TRUE(receiver.ready());
        ASSERT_EQ(receiver.try_receive(message, received_credit), Errc::ok);
        ASSERT_EQ(message.kind, kind);
        ASSERT_EQ(received_credit, credit);
        ASSERT_EQ(text_of(message), payload);
        ASSERT_EQ(receiver.try_receive(message, received_credit), Errc::would_block) << "is held";
        receiver.release();
        ASSERT_EQ(receiver.consumed(), ring.position());
        ASSERT_EQ(receiver.try_receive(message, received_credit), Errc::would_block) << "is empty";
    }
}

TEST(RingReceiver, sees_nothing_before_the_trailer) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    Message message;
    std::uint32_t credit = 0;
    ring.put_body("half a message, at first", 2, 7);
    EXPECT_EQ(receiver.try_receive(message, credit), Errc::would_block);
    EXPECT_FALSE(receiver.ready());
    ring.put_trailer(24);
    EXPECT_EQ(receiver.try_receive(message, credit), Errc::ok);
    EXPECT_EQ(text_of(message), "half a message, at first");
}

// A word at the place of a trailer that is any other position's tag is no trailer.
TEST(RingReceiver, takes_tags_of_other_positions_for_what_they_are) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    Message message;
    std::uint32_t credit = 0;
    for (std::uint64_t other = 32; other < 64 * 4096; other += 32) {
        ring.put_body("12345678", 1, 0);
        ring.word(ring.offset() + 16, ring::tag(kKey, other));
        ASSERT_EQ(receiver.try_receive(message, credit), Errc::would_block) << other;
    }
}

TEST(RingReceiver, held_record_can_be_put_back_and_comes_again) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    ring.put("again");
    Message message;
    std::uint32_t credit = 0;
    ASSERT_EQ(receiver.try_receive(message, credit), Errc::ok);
    receiver.put_back();
    ASSERT_EQ(receiver.try_receive(message, credit), Errc::ok);
    EXPECT_EQ(text_of(message), "again");
}

// Whatever one flipped bit does to a record, what is handed out lies inside the ring and is as long
// as the bytes before the trailer say; length and trailer themselves must agree.
TEST(RingReceiver, a_flipped_bit_never_leads_outside_the_record) {
    const std::string payload = "twenty-three characters";
    const std::size_t record = ring::record_bytes(payload.size());
    for (std::size_t bit = 0; bit < record * 8; ++bit) {
        Ring ring;
        ring.put(payload);
        ring.memory()[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        Message message;
        std::uint32_t credit = 0;
        const Errc result = receiver.try_receive(message, credit);
        if (result != Errc::ok) continue;  // not complete, or against the format: never handed out
        ASSERT_GE(message.payload.data(), ring.memory()) << bit;
        ASSERT_LE(message.payload.data() + message.payload.size(), ring.memory() + ring.bytes());
        // Lengths that round to the same trailer cannot be told apart; all others can.
        ASSERT_EQ(ring::round_up(message.payload.size(), 8), ring::round_up(payload.size(), 8));
        ASSERT_LT(bit / 8, record - 8) << "a record without its trailer was handed out";
    }
}

TEST(RingReceiver, refuses_forged_lengths_for_good) {
    const std::size_t bytes = 4096;
    for (const std::uint32_t length :
         {static_cast<std::uint32_t>(ring::max_payload(bytes)) + 1, std::uint32_t{2048},
          std::uint32_t{4096}, std::uint32_t{8184}, std::uint32_t{0x0fff'fff8}}) {
        Ring ring(bytes);
        ring.word(0, ring::Word0{length, 1, 0}.raw());
        // A sender that knows the key can place its trailer wherever the mask leads.
        ring.word(8 + ring::round_up(length, 8), ring::tag(kKey, 0));
        if (((8 + ring::round_up(length, 8)) & (bytes - 1)) == 0) continue;  // word 0 itself
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        Message message;
        std::uint32_t credit = 0;
        EXPECT_EQ(receiver.try_receive(message, credit), Errc::protocol_error) << length;
        EXPECT_EQ(receiver.try_receive(message, credit), Errc::protocol_error) << length;
        EXPECT_FALSE(receiver.holds());
    }
}

TEST(RingReceiver, refuses_records_over_the_end_of_a_lap_and_wrong_pads) {
    Message message;
    std::uint32_t credit = 0;
    {
        Ring ring;
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        while (ring.to_end() > 512) {
            ring.put(std::string(400, 'x'));
            ASSERT_EQ(receiver.try_receive(message, credit), Errc::ok);
            receiver.release();
        }
        const auto length = static_cast<std::uint32_t>(ring.to_end() + 64);
        ring.word(ring.offset(), ring::Word0{length, 1, 0}.raw());
        ring.word(ring.offset() + 8 + length, ring::tag(kKey, ring.position()));
        EXPECT_EQ(receiver.try_receive(message, credit), Errc::protocol_error);
    }
    for (const std::uint32_t skip : {0u, 32u, 4064u, 4096u, 8192u}) {
        Ring ring;
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        ring.word(0, ring::Word0{skip, ring::kPad, 0}.raw());
        ring.word(8, ring::tag(kKey, 0));
        EXPECT_EQ(receiver.try_receive(message, credit), Errc::protocol_error) << skip;
    }
}

TEST(RingFormat, credits_count_on_when_they_wrap) {
    const std::uint64_t known = (std::uint64_t{1} << 37) - 64;  // 32-byte steps wrap at 2^37
    EXPECT_EQ(ring::credit_gain(static_cast<std::uint32_t>((known + 128) / 32), known), 128);
    EXPECT_EQ(ring::credit_gain(static_cast<std::uint32_t>((known - 96) / 32), known), -96);
    EXPECT_EQ(ring::credit_gain(static_cast<std::uint32_t>(known / 32), known), 0);
}

}  // namespace
}  // namespace verbatim
