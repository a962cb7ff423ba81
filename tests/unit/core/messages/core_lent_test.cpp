// Send requests: tagged messages and bytes of streams that the peer reads from where they lie.
#include <verbatim/core/send_request.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <verbatim/core/stream.hpp>
#include <verbatim/core/tagged.hpp>

#include "../core_messages.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kMi = std::size_t{1} << 20;

// Memory of an arena with bytes that tell their place.
class Block {
  public:
    Block(Arena& arena, std::size_t bytes, unsigned seed = 0)
        : arena_(arena), bytes_(static_cast<std::byte*>(arena.allocate(bytes, 64)), bytes) {
        for (std::size_t i = 0; i < bytes; ++i) bytes_[i] = byte_of(seed, i);
    }
    ~Block() { arena_.deallocate(bytes_.data(), bytes_.size(), 64); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    static std::byte byte_of(unsigned seed, std::size_t at) {
        return static_cast<std::byte>(seed + at * 7 + (at >> 9));
    }
    std::span<std::byte> bytes() const { return bytes_; }
    std::span<const std::byte> constant() const { return bytes_; }

  private:
    Arena& arena_;
    std::span<std::byte> bytes_;
};

bool is_of(std::span<const std::byte> bytes, unsigned seed, std::size_t from = 0) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
        if (bytes[i] != Block::byte_of(seed, from + i)) return false;
    return true;
}

template <class Messages>
struct Ends : ConnectedPair {
    Ends() : ConnectedPair(small_config(), small_config()), from(*sender), to(*receiver) {
        measured = from.lend_from();
        from.set_lend_from(16384);
        to.set_lend_from(16384);
    }
    template <class Done>
    bool poll_until(Done done) {
        const Deadline deadline = soon();
        bool is_done = false;
        while (!(is_done = done()) && !deadline.passed()) {
            if (sender) (void)sender->progress();
            if (receiver) (void)receiver->progress();
        }
        return is_done;
    }
    template <class One>
    Errc outcome(const One& one) {
        poll_until([&] { return one.result() != Errc::would_block; });
        return one.result();
    }
    Errc send(std::uint64_t tag, SendRequest& request) {
        Errc error = Errc::would_block;
        poll_until([&] { return (error = from.try_send(tag, request)) != Errc::would_block; });
        return error;
    }
    Messages from, to;
    std::size_t measured = 0;
};
using Tags = Ends<Tagged>;
using Streams = Ends<Stream>;

TEST(SendRequest, of_a_tagged_message_is_read_out_of_the_arena_it_lies_in) {
    Tags ends;
    for (const std::size_t bytes : {kMi, ends.to.longest_copied() + 1, 5 * kMi + 77}) {
        const Block message(ends.sender->arena(), bytes, 5),
            room(ends.receiver->receive_arena(), bytes);
        SendRequest request(message.constant());
        ASSERT_EQ(ends.send(7, request), Errc::ok);
        EXPECT_TRUE(request.is_lent());
        for (int i = 0; i < 100; ++i)
            (void)ends.sender->progress(), (void)ends.receiver->progress();
        EXPECT_EQ(request.result(), Errc::would_block) << "nobody has asked for it";
        Tagged::Waiting waiting;
        ASSERT_TRUE(ends.poll_until([&] { return ends.to.probe(7, ~0ull, waiting); }));
        EXPECT_EQ(waiting.bytes, bytes);
        TaggedReceive receive(7, room.bytes());
        ends.to.receive(receive);
        ASSERT_EQ(ends.outcome(receive), Errc::ok);
        EXPECT_EQ(ends.outcome(request), Errc::ok);
        EXPECT_EQ(receive.bytes(), bytes);
        EXPECT_TRUE(is_of(room.constant(), 5));
        EXPECT_EQ(ends.from.try_send(7, request), Errc::invalid_argument) << "used once";
    }
}

TEST(SendRequest, goes_into_memory_outside_of_arenas_and_is_cut_where_there_is_no_room) {
    Tags ends;
    const Block message(ends.sender->arena(), kMi);
    for (const std::size_t room : {kMi, kMi - 1, std::size_t{10}, std::size_t{0}}) {
        std::vector<std::byte> into(room);
        SendRequest request(message.constant());
        TaggedReceive receive(1, into);
        ends.to.receive(receive);
        ASSERT_EQ(ends.send(1, request), Errc::ok);
        EXPECT_EQ(ends.outcome(receive), room == kMi ? Errc::ok : Errc::message_too_large);
        EXPECT_EQ(receive.bytes(), kMi);
        EXPECT_TRUE(is_of(into, 0));
        EXPECT_EQ(ends.outcome(request), Errc::ok);
    }
}

TEST(SendRequest, of_a_short_message_or_one_outside_of_arenas_is_copied) {
    Tags ends;
    EXPECT_GE(ends.measured, 4096u);
    EXPECT_LE(ends.measured, kMi);
    const std::vector<std::byte> outside(ends.from.longest_copied());
    SendRequest copied(outside);
    EXPECT_EQ(ends.send(1, copied), Errc::ok);
    EXPECT_EQ(copied.result(), Errc::ok);
    const Block few(ends.sender->arena(), 64);
    SendRequest small(few.constant());
    EXPECT_EQ(ends.send(1, small), Errc::ok);
    EXPECT_EQ(small.result(), Errc::ok);
    EXPECT_FALSE(copied.is_lent() || small.is_lent());
    const std::vector<std::byte> long_outside(ends.from.longest_copied() + 1);
    SendRequest too_long(long_outside);
    EXPECT_EQ(ends.send(1, too_long), Errc::message_too_large);
}

TEST(SendRequest, waits_at_the_sender_when_sixteen_are_open) {
    Tags ends;
    const Block message(ends.sender->arena(), kMi);
    std::deque<SendRequest> requests;
    for (int i = 0; i < 16; ++i) {
        requests.emplace_back(message.constant());
        ASSERT_EQ(ends.send(static_cast<std::uint64_t>(i), requests.back()), Errc::ok);
    }
    SendRequest next(message.constant());
    EXPECT_EQ(ends.from.try_send(16, next), Errc::would_block);
    const Block room(ends.receiver->receive_arena(), kMi, 9);
    for (std::uint64_t tag = 16; tag-- > 0;) {  // the last one first
        TaggedReceive receive(tag, room.bytes());
        ends.to.receive(receive);
        ASSERT_EQ(ends.outcome(receive), Errc::ok) << tag;
        ASSERT_EQ(ends.outcome(requests[tag]), Errc::ok) << tag;
    }
    EXPECT_EQ(ends.send(16, next), Errc::ok);
    TaggedReceive receive(16, room.bytes());
    ends.to.receive(receive);
    EXPECT_EQ(ends.outcome(next), Errc::ok);
}

TEST(SendRequest, retires_also_where_its_receives_have_gone) {
    Tags ends;
    const Block message(ends.sender->arena(), kMi);
    const Block room(ends.receiver->receive_arena(), kMi);
    SendRequest first(message.constant()), second(message.constant());
    ASSERT_EQ(ends.send(1, first), Errc::ok);
    ASSERT_EQ(ends.send(2, second), Errc::ok);
    Tagged::Waiting waiting;
    ASSERT_TRUE(ends.poll_until([&] { return ends.to.probe(2, ~0ull, waiting); }));
    {
        TaggedReceive being_read(1, room.bytes()), queued(2, room.bytes());
        ends.to.receive(being_read);
        ends.to.receive(queued);
        queued.cancel();
        EXPECT_EQ(queued.result(), Errc::would_block) << "a message has come for it";
    }
    EXPECT_EQ(ends.outcome(first), Errc::ok);
    EXPECT_EQ(ends.outcome(second), Errc::ok);
    EXPECT_EQ(ends.receiver->state(), Errc::ok);
}

TEST(SendRequest, that_goes_before_it_was_read_ends_the_connection_if_the_peer_reads) {
    Tags ends;
    const Block message(ends.sender->arena(), kMi), room(ends.receiver->receive_arena(), kMi);
    {
        SendRequest request(message.constant());
        ASSERT_EQ(ends.send(1, request), Errc::ok);
    }
    TaggedReceive receive(1, room.bytes());
    ends.to.receive(receive);
    EXPECT_GT(ends.outcome(receive), Errc::would_block);
    EXPECT_TRUE(ends.poll_until([&] { return ends.receiver->state() != Errc::ok; }));
}

TEST(SendRequest, ends_with_the_connection) {
    auto ends = std::make_unique<Tags>();
    const Block message(ends->sender->arena(), kMi);
    SendRequest peer_goes(message.constant());
    ASSERT_EQ(ends->send(1, peer_goes), Errc::ok);
    std::thread closing([&] { ends->receiver.reset(); });
    const Deadline deadline = soon();
    while (peer_goes.result() == Errc::would_block && !deadline.passed())
        (void)ends->sender->progress();
    closing.join();
    EXPECT_GT(peer_goes.result(), Errc::would_block);
    Tags others;
    const Block other(others.sender->arena(), kMi);
    SendRequest this_goes(other.constant());
    ASSERT_EQ(others.send(1, this_goes), Errc::ok);
    others.sender.reset();
    EXPECT_EQ(this_goes.result(), Errc::flushed);
}

// Written in both ways and read in pieces of any length, it is one stream.
TEST(SendRequest, of_a_stream_keeps_its_place_among_copied_bytes) {
    Streams ends;
    std::mt19937 random(11);
    constexpr std::size_t kBytes = 24 * kMi;
    const Block source(ends.sender->arena(), 2 * kMi);
    std::deque<std::span<const std::byte>> pieces;  // that were begun, and not read
    std::deque<std::unique_ptr<SendRequest>> requests;
    std::size_t read = 0, lent = 0;
    std::vector<std::byte> in(300'000);
    const auto next = [&] {
        const std::size_t bytes = 1 + random() % (random() % 2 == 0 ? 3000 : kMi);
        pieces.push_back(source.constant().subspan(random() % (2 * kMi - bytes), bytes));
        return std::make_unique<SendRequest>(pieces.back());
    };
    auto request = next();
    const Deadline deadline = soon();
    while (read < kBytes && !deadline.passed()) {
        const Errc error = ends.from.try_write(*request);
        ASSERT_TRUE(error == Errc::ok || error == Errc::would_block);
        if (error == Errc::ok) {
            lent += request->is_lent();
            requests.push_back(std::exchange(request, next()));
        }
        while (!requests.empty() && requests.front()->result() == Errc::ok) requests.pop_front();
        (void)ends.sender->progress(), (void)ends.receiver->progress();
        std::size_t got = 0;
        (void)ends.to.try_read(std::span(in).first(1 + random() % in.size()), got);
        for (std::size_t at = 0; at < got;) {
            auto& from = pieces.front();
            const std::size_t some = std::min(got - at, from.size());
            ASSERT_TRUE(std::ranges::equal(std::span(in).subspan(at, some), from.first(some)))
                << "at " << read + at;
            from = from.subspan(some), at += some;
            if (from.empty()) pieces.pop_front();
        }
        read += got;
    }
    EXPECT_GT(lent, 5u);
    EXPECT_GE(read, kBytes);
}

TEST(SendRequest, of_a_stream_is_read_straight_into_an_arena_by_the_blocking_form) {
    Streams ends;
    constexpr int kRounds = 20;
    const Block source(ends.sender->arena(), 3 * kMi, 3),
        sink(ends.receiver->receive_arena(), 3 * kMi);
    std::thread writing([&] {
        for (int i = 0; i < kRounds; ++i) {
            ends.from.write(source.constant().first(100), soon());
            SendRequest request(source.constant());
            ends.from.write(request, soon());
        }
        ends.from.finish(soon());
    });
    std::size_t got = 0, wrong = 0, at = 0;
    constexpr std::size_t kRound = 3 * kMi + 100;
    while ((got = ends.to.read(sink.bytes(), soon())) != 0) {
        for (std::size_t i = 0; i < got; ++i, ++at) {
            const std::size_t place = at % kRound;
            wrong += sink.bytes()[i] != Block::byte_of(3, place < 100 ? place : place - 100);
        }
    }
    writing.join();
    EXPECT_EQ(at, kRounds * kRound);
    EXPECT_EQ(wrong, 0u);
}

TEST(SendRequest, goes_both_ways_between_threads) {
    Tags ends;
    constexpr std::uint64_t kRounds = 50;
    const auto run = [&](Tagged& tagged, Connection& connection, unsigned mine, unsigned other) {
        const Block message(connection.arena(), kMi, mine), room(connection.receive_arena(), kMi);
        int wrong = 0;
        for (std::uint64_t i = 0; i < kRounds; ++i) {
            SendRequest request(message.constant());
            TaggedReceive receive(i, room.bytes());
            tagged.receive(receive);
            tagged.send(i, request, soon());
            tagged.wait(receive, soon());
            wrong += !is_of(room.constant(), other);
        }
        return wrong;
    };
    int wrong = 0;
    std::thread there([&] { wrong = run(ends.to, *ends.receiver, 2, 1); });
    EXPECT_EQ(run(ends.from, *ends.sender, 1, 2), 0);
    there.join();
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace verbatim::test
