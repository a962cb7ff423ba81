// The receiving end of a message ring against a model and against forged bytes, in plain memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <verbatim/core/deadline.hpp>

#include "ring/ring_receiver.hpp"

namespace verbatim {
namespace {

constexpr std::uint64_t kKey = 0x1234'5678'9abc'def0u;

ring::Word0 word_of(std::size_t length, unsigned kind, std::uint32_t credit) {
    return {.length = static_cast<std::uint32_t>(length),
            .channel = static_cast<std::uint8_t>(kind + 100),
            .kind = static_cast<std::uint8_t>(kind),
            .credit = credit};
}
ring::Word0 pad_of(std::size_t skip) {
    return {.length = static_cast<std::uint32_t>(skip), .frame = ring::Frame::pad};
}

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
        word(offset(), word_of(payload.size(), kind, credit).raw());
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
        word(offset(), pad_of(to_end()).raw());
        word(offset() + 8, ring::tag(kKey, position_));
        position_ += to_end();
    }

  private:
    std::size_t bytes_;
    std::unique_ptr<std::uint64_t[]> words_;
    std::uint64_t position_ = 0;
};

std::string text_of(const Record& message) {
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
        const auto credit = static_cast<std::uint32_t>(random()) & 0xff'ffff;
        ring.put(payload, kind, credit);
        Record message;
        ASSERT_TRUE(receiver.ready());
        ASSERT_EQ(receiver.next(message), Errc::ok);
        ASSERT_EQ(message.kind, kind);
        ASSERT_EQ(message.channel, kind + 100);
        ASSERT_EQ(message.credit, credit);
        ASSERT_EQ(text_of(message), payload);
        ASSERT_EQ(receiver.consumed() == ring.position(), false) << "is held";
        receiver.release(message.number);
        ASSERT_EQ(receiver.consumed(), ring.position());
        ASSERT_EQ(receiver.next(message), Errc::would_block) << "is empty";
    }
}

TEST(RingReceiver, sees_nothing_before_the_trailer) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    Record message;
    ring.put_body("half a message, at first", 2, 7);
    EXPECT_EQ(receiver.next(message), Errc::would_block);
    EXPECT_FALSE(receiver.ready());
    ring.put_trailer(24);
    EXPECT_EQ(receiver.next(message), Errc::ok);
    EXPECT_EQ(text_of(message), "half a message, at first");
}

// Also where word 0 is the one that lay there a lap before.
TEST(RingReceiver, that_is_quiet_names_the_words_that_the_next_record_changes) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    const std::uint64_t no_credit = 0;
    Record message;
    for (int i = 0; i < 2000; ++i) {
        const std::string payload(i % 3 == 0 ? 40 : 8, 'x');
        if (ring::slot_bytes(payload.size()) > ring.to_end()) {
            ring.put_pad();
            (void)receiver.skip_pads();
        }
        PolledWords words;
        words.credit = &no_credit;
        ASSERT_TRUE(receiver.is_quiet(words));
        ASSERT_TRUE(words.are_unchanged());
        ring.put(payload, 1, 0);
        ASSERT_FALSE(words.are_unchanged()) << i;
        ASSERT_FALSE(receiver.is_quiet(words));
        ASSERT_EQ(receiver.next(message), Errc::ok);
        receiver.release(message.number);
    }
    PolledWords words;
    std::uint64_t credit = 0;
    words.credit = &credit;
    ASSERT_TRUE(receiver.is_quiet(words));
    credit = 1;
    EXPECT_FALSE(words.are_unchanged());
}

// A word at the place of a trailer that is any other position's tag is no trailer.
TEST(RingReceiver, takes_tags_of_other_positions_for_what_they_are) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    Record message;
    for (std::uint64_t other = 32; other < 64 * 4096; other += 32) {
        ring.put_body("12345678", 1, 0);
        ring.word(ring.offset() + 16, ring::tag(kKey, other));
        ASSERT_EQ(receiver.next(message), Errc::would_block) << other;
    }
}

TEST(RingReceiver, gives_space_back_up_to_the_first_record_that_is_held) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    std::vector<Record> held(5);
    std::vector<std::uint64_t> ends;
    for (Record& record : held) {
        ring.put("a record");
        ends.push_back(ring.position());
        ASSERT_EQ(receiver.next(record), Errc::ok);
    }
    receiver.release(held[1].number);
    receiver.release(held[3].number);
    EXPECT_EQ(receiver.consumed(), 0u);
    receiver.release(held[0].number);
    EXPECT_EQ(receiver.consumed(), ends[1]);
    receiver.release(held[4].number);
    EXPECT_EQ(receiver.held(), 1u);
    receiver.release(held[2].number);
    EXPECT_EQ(receiver.consumed(), ends[4]);
    EXPECT_EQ(receiver.held(), 0u);
}

TEST(HeldRecords, give_back_what_a_model_says_in_any_order) {
    HeldRecords records;
    std::map<std::uint64_t, std::uint32_t> model;  // by position
    std::mt19937 random(7);
    std::uint64_t end = 0, most = 0;
    for (int i = 0; i < 200'000; ++i) {
        ASSERT_EQ(records.count(), model.size());
        ASSERT_EQ(records.full(), model.size() == HeldRecords::kMost);
        most = std::max<std::uint64_t>(most, model.size());
        const bool grows = random() % 1000 < (i % 2000 < 1000 ? 600 : 400);
        if (grows && !records.full()) {
            model[end] = records.add(end);
            end += 1 + random() % 100;
        } else if (!model.empty()) {
            const auto chosen = std::next(model.begin(), static_cast<int>(random() % model.size()));
            const std::uint32_t number = chosen->second;
            model.erase(chosen);
            const std::uint64_t free = model.empty() ? end : model.begin()->first;
            ASSERT_EQ(records.give_back(number, end), free);
        }
    }
    EXPECT_EQ(most, HeldRecords::kMost);
}

TEST(RingReceiver, tells_whether_memory_holds_all_records_up_to_a_position) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    ring.put("one", 1, 5);
    const std::uint64_t first = ring.position();
    RingReceiver::Seen seen;
    EXPECT_EQ(receiver.holds_up_to(0, seen), Errc::ok);
    EXPECT_EQ(receiver.holds_up_to(first, seen), Errc::ok);
    EXPECT_EQ(receiver.holds_up_to(first + 32, seen), Errc::would_block);
    ring.put("two", 1, 7);
    EXPECT_EQ(receiver.holds_up_to(ring.position(), seen), Errc::ok);
    EXPECT_EQ(seen.count, 2u);
    EXPECT_EQ(seen.credit, 7u);
    Record record;
    EXPECT_EQ(receiver.next(record), Errc::ok) << "it was only looked at";
    EXPECT_EQ(text_of(record), "one");
    EXPECT_FALSE(record.is_new) << "its credit may be old news";
}

TEST(RingReceiver, sees_each_record_once_before_or_when_it_is_handed_out) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    std::mt19937_64 random(4);
    std::uint64_t put = 0, seen = 0;
    for (int i = 0; i < 20000; ++i) {
        if (ring.position() - receiver.consumed() < 2000) {
            const std::size_t length = random() % 200;
            if (ring::slot_bytes(length) > ring.to_end()) ring.put_pad();
            ring.put(std::string(length, 'x'));
            ++put;
        }
        RingReceiver::Seen ahead;
        if (random() % 2 == 0) {
            EXPECT_EQ(receiver.has_unseen(), seen < put);
            ASSERT_EQ(receiver.look_ahead(ahead), Errc::ok);
            seen += ahead.count;
            ASSERT_EQ(seen, put);
        }
        Record record;
        if (random() % 2 == 0 && receiver.next(record) == Errc::ok) {
            seen += record.is_new ? 1 : 0;
            receiver.release(record.number);
        }
    }
}

TEST(RingReceiver, refuses_positions_where_no_record_can_end) {
    Ring ring;
    ring.put(std::string(100, 'x'));
    const std::uint64_t end = ring.position();
    for (const std::uint64_t position :
         {end - 32, std::uint64_t{2 * 4096 + 32}, ~std::uint64_t{0}}) {
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        RingReceiver::Seen seen;
        EXPECT_EQ(receiver.holds_up_to(position, seen), Errc::protocol_error) << position;
    }
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
        Record message;
        const Errc result = receiver.next(message);
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
          std::uint32_t{4096}, std::uint32_t{8184}, std::uint32_t{0xff'fff8}}) {
        Ring ring(bytes);
        ring.word(0, word_of(length, 1, 0).raw());
        // A sender that knows the key can place its trailer wherever the mask leads.
        ring.word(8 + ring::round_up(length, 8), ring::tag(kKey, 0));
        if (((8 + ring::round_up(length, 8)) & (bytes - 1)) == 0) continue;  // word 0 itself
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        Record message;
        EXPECT_EQ(receiver.next(message), Errc::protocol_error) << length;
        EXPECT_EQ(receiver.next(message), Errc::protocol_error) << length;
        EXPECT_EQ(receiver.held(), 0u);
    }
}

TEST(RingReceiver, refuses_records_over_the_end_of_a_lap_and_wrong_pads) {
    Record message;
    {
        Ring ring;
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        while (ring.to_end() > 512) {
            ring.put(std::string(400, 'x'));
            ASSERT_EQ(receiver.next(message), Errc::ok);
            receiver.release(message.number);
        }
        const auto length = static_cast<std::uint32_t>(ring.to_end() + 64);
        ring.word(ring.offset(), word_of(length, 1, 0).raw());
        ring.word(ring.offset() + 8 + length, ring::tag(kKey, ring.position()));
        EXPECT_EQ(receiver.next(message), Errc::protocol_error);
    }
    for (const std::uint32_t skip : {0u, 16u, 48u, 4128u, 8192u}) {
        Ring ring;
        RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
        ring.word(0, pad_of(skip).raw());
        ring.word(8, ring::tag(kKey, 0));
        EXPECT_EQ(receiver.next(message), Errc::protocol_error) << skip;
    }
}

TEST(RingReceiver, passes_pads_and_gives_their_space_back) {
    Ring ring;
    RingReceiver receiver(ring.memory(), ring.bytes(), kKey);
    for (std::size_t at = 0; at < 96; at += 32) {
        ring.word(at, pad_of(32).raw());
        ring.word(at + 8, ring::tag(kKey, at));
    }
    RingReceiver::Seen seen;
    EXPECT_EQ(receiver.look_ahead(seen), Errc::ok);
    EXPECT_EQ(seen.count, 0u);
    EXPECT_EQ(seen.pads, 3u);
    Record record;
    EXPECT_EQ(receiver.next(record), Errc::would_block);
    EXPECT_EQ(receiver.consumed(), 96u);
}

// Pads of other lengths lay there in earlier laps, and a trailer's place does not tell them apart.
TEST(RingReceiver, skips_pads_by_what_is_written_and_not_by_what_was_there) {
    constexpr std::uint64_t kBytes = 4096, kSteps = 300'000;
    std::vector<std::uint64_t> words(kBytes / 8);
    const auto store = [&](std::uint64_t at, std::uint64_t value) {
        __atomic_store_n(&words[at % kBytes / 8], value, __ATOMIC_RELEASE);
    };
    std::atomic<std::uint64_t> sent = 0, consumed = 0;
    std::atomic<bool> has_ended = false;
    std::thread writer([&] {
        std::mt19937_64 random(5);
        for (std::uint64_t step = 0, at = 0; step < kSteps && !has_ended; ++step) {
            const std::uint64_t length =
                std::min((1 + random() % 4) * ring::kAlignment, kBytes - at % kBytes);
            while (at + length > consumed + kBytes && !has_ended) std::this_thread::yield();
            store(at, pad_of(length).raw());
            store(at + 8, ring::tag(kKey, at));
            sent = at += length;
        }
        has_ended = true;
    });
    RingReceiver receiver(reinterpret_cast<const std::byte*>(words.data()), kBytes, kKey);
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    while (!(has_ended && receiver.consumed() == sent) && !deadline.passed()) {
        receiver.skip_pads();
        consumed = receiver.consumed();
        if (consumed == sent) std::this_thread::yield();
    }
    has_ended = true;
    writer.join();
    EXPECT_EQ(receiver.consumed(), sent);
}

TEST(RingFormat, credits_count_on_when_they_wrap) {
    const std::uint64_t known = (std::uint64_t{1} << 29) - 64;  // 32-byte steps wrap at 2^29
    EXPECT_EQ(ring::credit_gain(ring::to_credit(known + 128), known), 128);
    EXPECT_EQ(ring::credit_gain(ring::to_credit(known - 96), known), -96);
    EXPECT_EQ(ring::credit_gain(ring::to_credit(known), known), 0);
    EXPECT_EQ(ring::credit_gain(ring::to_credit(known + ring::kMaxRing), known),
              static_cast<std::int64_t>(ring::kMaxRing));
}

TEST(RingFormat, words_keep_each_of_their_parts) {
    const ring::Word0 word{0x123456, 0xab, 0xc, ring::Frame::pad, 0x789abc};
    const ring::Word0 back = ring::Word0::from(word.raw());
    EXPECT_EQ(back.length, word.length);
    EXPECT_EQ(back.channel, word.channel);
    EXPECT_EQ(back.kind, word.kind);
    EXPECT_EQ(back.frame, word.frame);
    EXPECT_EQ(back.credit, word.credit);
}

}  // namespace
}  // namespace verbatim
