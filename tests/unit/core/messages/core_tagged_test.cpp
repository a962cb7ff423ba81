// Tagged messages.
#include <verbatim/core/tagged.hpp>

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../core_messages.hpp"

namespace verbatim::test {
namespace {

struct TaggedPair : ConnectedPair {
    explicit TaggedPair(const Config& config = small_config())
        : ConnectedPair(config, config), from(*sender), to(*receiver) {}
    // Polls both sides until `done`.
    template <class Done>
    bool poll_until(Done done) {
        const Deadline deadline = soon();
        bool is_done = false;
        while (!(is_done = done()) && !deadline.passed()) {
            if (sender) (void)sender->progress();
            (void)receiver->progress();
        }
        return is_done;
    }
    Errc outcome(const TaggedReceive& receive) {
        poll_until([&] { return receive.result() != Errc::would_block; });
        return receive.result();
    }
    void send(std::uint64_t tag, const std::string& text) {
        Errc error = Errc::ok;
        poll_until([&] { return (error = from.try_send(tag, bytes_of(text))) == Errc::ok; });
        EXPECT_EQ(error, Errc::ok);
    }
    Tagged from, to;
};

// A receive with room of its own.
struct Text {
    explicit Text(std::uint64_t tag, std::uint64_t mask = TaggedReceive::kAllBits)
        : receive(tag, std::as_writable_bytes(std::span(room)), mask) {}
    std::string text() const { return {room.data(), receive.bytes()}; }
    std::array<char, 64> room{};
    TaggedReceive receive;
};

TEST(Tagged, messages_find_the_receive_of_their_tag_whichever_comes_first) {
    TaggedPair pair;
    Text one(1), two(2), three(3);
    pair.to.receive(two.receive);
    pair.send(1, "first");
    pair.send(2, "second");
    EXPECT_EQ(pair.outcome(two.receive), Errc::ok);
    EXPECT_EQ(two.text(), "second");
    pair.to.receive(one.receive);
    EXPECT_EQ(one.receive.result(), Errc::ok) << "it has waited";
    EXPECT_EQ(one.text(), "first");
    pair.to.receive(three.receive);
    (void)pair.receiver->progress();
    EXPECT_EQ(three.receive.result(), Errc::would_block);
}

TEST(Tagged, masks_say_which_bits_count_and_the_receive_learns_the_tag) {
    TaggedPair pair;
    Text high(0x700000000, 0xf00000000), any(0, 0);
    pair.to.receive(high.receive);
    pair.to.receive(any.receive);
    pair.send(0x612345678, "six");
    pair.send(0x712345678, "seven");
    EXPECT_EQ(pair.outcome(high.receive), Errc::ok);
    EXPECT_EQ(high.receive.tag(), 0x712345678u);
    EXPECT_EQ(pair.outcome(any.receive), Errc::ok);
    EXPECT_EQ(any.text(), "six");
}

TEST(Tagged, receives_of_one_tag_are_served_in_order_as_are_messages) {
    TaggedPair pair;
    std::deque<Text> texts;
    for (int i = 0; i < 6; ++i) texts.emplace_back(5);
    for (int i = 0; i < 3; ++i) pair.to.receive(texts[static_cast<std::size_t>(i)].receive);
    for (int i = 0; i < 6; ++i) pair.send(5, std::to_string(i));
    Tagged::Waiting waiting;
    EXPECT_TRUE(pair.poll_until([&] { return pair.to.probe(5, ~0ull, waiting); }));
    EXPECT_EQ(waiting.bytes, 1u);
    for (int i = 3; i < 6; ++i) pair.to.receive(texts[static_cast<std::size_t>(i)].receive);
    for (int i = 0; i < 6; ++i) {
        Text& text = texts[static_cast<std::size_t>(i)];
        ASSERT_EQ(pair.outcome(text.receive), Errc::ok);
        EXPECT_EQ(text.text(), std::to_string(i));
    }
    EXPECT_FALSE(pair.to.probe(0, 0, waiting));
}

TEST(Tagged, message_that_is_too_long_for_its_receive_is_told_with_its_length) {
    TaggedPair pair;
    Text text(1);
    pair.to.receive(text.receive);
    pair.send(1, std::string(100, 'x'));
    EXPECT_EQ(pair.outcome(text.receive), Errc::message_too_large);
    EXPECT_EQ(text.receive.bytes(), 100u);
    EXPECT_EQ(std::string(text.room.data(), 64), std::string(64, 'x'));
    const std::vector<std::byte> most(pair.from.longest_copied() + 1);
    EXPECT_EQ(pair.from.try_send(1, most), Errc::message_too_large);
}

TEST(Tagged, receives_that_are_taken_back_get_nothing) {
    TaggedPair pair;
    Text kept(1);
    {
        Text gone(1);
        pair.to.receive(gone.receive);
        pair.to.receive(kept.receive);
        Text cancelled(2);
        pair.to.receive(cancelled.receive);
        cancelled.receive.cancel();
        EXPECT_EQ(cancelled.receive.result(), Errc::flushed);
    }
    pair.send(1, "to the other");
    EXPECT_EQ(pair.outcome(kept.receive), Errc::ok);
    EXPECT_EQ(kept.text(), "to the other");
}

TEST(Tagged, sender_is_held_back_while_the_peer_asks_for_nothing) {
    TaggedPair pair;
    const std::string text(1000, 'a');
    std::size_t sent = 0;
    for (int rounds = 0; rounds < 20000; ++rounds) {
        sent += pair.from.try_send(sent, bytes_of(text)) == Errc::ok;
        (void)pair.receiver->progress(), (void)pair.sender->progress();
    }
    EXPECT_GT(sent, 900u);
    EXPECT_LT(sent, (std::size_t{1} << 20) / 1000) << "1 MiB at most";
    for (std::size_t i = 0; i < 3000; ++i) {  // in any order of tags, and others follow
        std::array<std::byte, 1000> room;
        TaggedReceive receive(i, room);
        pair.to.receive(receive);
        if (i >= sent) pair.send(sent++, text);
        ASSERT_EQ(pair.outcome(receive), Errc::ok) << i;
    }
}

TEST(Tagged, of_random_tags_and_masks_agree_with_a_model) {
    TaggedPair pair;
    std::mt19937 random(5);
    struct Sent {
        std::uint64_t tag;
        std::string text;
    };
    std::vector<Sent> model;  // sent, and not received yet
    for (int i = 0; i < 5000; ++i) {
        if (model.size() < 40 && random() % 2 == 0) {
            model.push_back({random() % 16, std::to_string(i)});
            pair.send(model.back().tag, model.back().text);
            continue;
        }
        const std::uint64_t tag = random() % 16, mask = random() % 16;
        const auto expected = std::ranges::find_if(
            model, [&](const Sent& one) { return ((one.tag ^ tag) & mask) == 0; });
        if (expected == model.end()) continue;
        Text text(tag, mask);
        pair.to.receive(text.receive);
        ASSERT_EQ(pair.outcome(text.receive), Errc::ok);
        ASSERT_EQ(text.text(), expected->text);
        ASSERT_EQ(text.receive.tag(), expected->tag);
        model.erase(expected);
    }
}

TEST(Tagged, receives_end_with_the_connection) {
    auto pair = std::make_unique<TaggedPair>();
    Text waits(1), later(2);
    pair->to.receive(waits.receive);
    pair->sender.reset();
    EXPECT_GT(pair->outcome(waits.receive), Errc::would_block);
    pair->to.receive(later.receive);
    EXPECT_GT(later.receive.result(), Errc::would_block);
    Text posted(3);
    TaggedPair other;
    other.to.receive(posted.receive);
    other.receiver.reset();
    EXPECT_EQ(posted.receive.result(), Errc::flushed) << "it outlives its connection";
}

// Both ends as threads, by the blocking forms.
TEST(Tagged, goes_both_ways_between_threads) {
    TaggedPair pair;
    constexpr std::uint64_t kRounds = 2000;
    std::thread echo([&] {
        for (std::uint64_t i = 0; i < kRounds; ++i) {
            Text text(i);
            pair.to.receive(text.receive);
            pair.to.wait(text.receive, soon());
            pair.to.send(i + kRounds, bytes_of(text.text()), soon());
        }
    });
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        Text text(i + kRounds);
        pair.from.receive(text.receive);
        pair.from.send(i, bytes_of(std::to_string(i)), soon());
        pair.from.wait(text.receive, soon());
        ASSERT_EQ(text.text(), std::to_string(i));
    }
    echo.join();
}

}  // namespace
}  // namespace verbatim::test
