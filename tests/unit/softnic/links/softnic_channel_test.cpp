// The two-sided ring alone: flow of records, and a peer that writes nonsense.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "host/peer_process.hpp"
#include "rings/channel.hpp"
#include "sanitized.hpp"

namespace verbatim::softnic {
namespace {

using Peek = ChannelReceiver::Peek;

ChannelReceiver make_receiver(ChannelSlabs& slabs, std::size_t ring_bytes) {
    const ChannelTerms terms{.ring_bytes = ring_bytes};
    return {slabs.take(Nonce{1}, terms.bytes()), terms};
}
ChannelHeader& header_of(const ChannelPlace& place) {
    return *reinterpret_cast<ChannelHeader*>(place.memory->data() + place.offset);
}

struct Channel {
    explicit Channel(std::size_t ring_bytes)
        : receiver(make_receiver(slabs, ring_bytes)), place(receiver.lend()), sender(place) {}

    bool put(const std::string& text, std::uint32_t flags = kFirstRecord | kLastRecord) {
        std::size_t capacity = 0;
        std::byte* const to = sender.reserve(capacity);
        if (to == nullptr || capacity < text.size()) return false;
        std::memcpy(to, text.data(), text.size());
        RecordHeader record;
        record.bytes = static_cast<std::uint32_t>(text.size());
        record.flags = flags;
        sender.commit(record);
        return true;
    }
    std::string take() {
        RecordHeader record;
        const std::byte* payload = nullptr;
        if (receiver.peek(record, payload) != Peek::record) return "<none>";
        std::string text(reinterpret_cast<const char*>(payload), record.bytes);
        receiver.release(record);
        return text;
    }
    ChannelHeader& header() { return header_of(place); }
    std::byte* ring() { return place.memory->data() + place.offset + kChannelHeaderBytes; }
    Peek peek() {
        RecordHeader record;
        const std::byte* payload = nullptr;
        return receiver.peek(record, payload);
    }

    ChannelSlabs slabs;
    ChannelReceiver receiver;
    ChannelPlace place;
    ChannelSender sender;
};

TEST(Channel, records_come_out_as_they_went_in_over_many_laps) {
    Channel channel(256);
    for (int i = 0; i < 1000; ++i) {
        const std::string text(static_cast<std::size_t>(i % 33), static_cast<char>('a' + i % 26));
        // Near the ring's end a record may have to be shorter; an empty one moves on to the start.
        while (!channel.put(text)) {
            ASSERT_TRUE(channel.put(""));
            ASSERT_EQ(channel.take(), "");
        }
        ASSERT_EQ(channel.take(), text);
    }
}

TEST(Channel, full_ring_refuses_until_something_is_released) {
    Channel channel(64);
    ASSERT_TRUE(channel.put("0123456789abcdef"));
    ASSERT_TRUE(channel.put("fedcba9876543210"));
    EXPECT_FALSE(channel.put(""));
    EXPECT_FALSE(channel.sender.broken());
    EXPECT_EQ(channel.take(), "0123456789abcdef");
    EXPECT_TRUE(channel.put(""));
}

TEST(Channel, every_announced_length_is_checked_before_use) {
    struct Lie {
        const char* name;
        std::uint64_t produced;
        std::uint32_t bytes, flags;
    };
    for (const Lie& lie :
         {Lie{"longer than announced", 32, 17, 3}, Lie{"longer than a record", 8192, 4097, 3},
          Lie{"beyond the ring", 16384, 64, 3}, Lie{"not whole units", 17, 0, 3},
          Lie{"unknown flags", 32, 16, 1U << 31}, Lie{"huge", 32, 0xffffffff, 3},
          Lie{"backwards", ~std::uint64_t{15}, 0, 3}}) {
        Channel channel(8192);
        const RecordHeader record{lie.bytes, lie.flags, 0, 0};
        std::memcpy(channel.ring(), &record, sizeof record);
        channel.header().produced.bytes.store(lie.produced);
        EXPECT_EQ(channel.peek(), Peek::broken) << lie.name;
    }
}

TEST(Channel, sender_believes_no_impossible_consumer) {
    for (const std::uint64_t consumed :
         {std::uint64_t{64}, std::uint64_t{8}, ~std::uint64_t{0} - 15}) {
        Channel channel(64);
        ASSERT_TRUE(channel.put("0123456789abcdef"));
        channel.header().drain.consumed.store(consumed);
        EXPECT_FALSE(channel.put("0123456789abcdef"));
        EXPECT_TRUE(channel.sender.broken()) << consumed;
    }
}

TEST(Channel, sender_refuses_a_file_that_is_no_ring) {
    const auto expect_refusal = [](const ChannelPlace& place) {
        try {
            const ChannelSender sender(place);
            FAIL();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::protocol_error);
        }
    };
    const auto zeros = SharedMemory::create("test", 8192, true);
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{8128},
                                       std::uint64_t{8192}, ~std::uint64_t{4095}})
        expect_refusal({zeros, offset});
    ChannelSlabs slabs;
    for (const std::uint64_t ring_bytes :
         {std::uint64_t{0}, std::uint64_t{48}, std::uint64_t{8192}, std::uint64_t{1} << 63}) {
        ChannelReceiver receiver = make_receiver(slabs, 4096);
        const ChannelPlace place = receiver.lend();
        expect_refusal({place.memory, place.offset + 16});
        header_of(place).fixed.ring_bytes =
            ring_bytes == 8192 ? std::uint64_t{1} << 30 : ring_bytes;
        expect_refusal(place);
        header_of(place).fixed.ring_bytes = 4096;
        header_of(place).fixed.slot = WorkBoard::kSlots;
        expect_refusal(place);
    }
}

TEST(Channel, state_only_goes_up) {
    Channel channel(64);
    EXPECT_EQ(channel.sender.receiver_state(), ReceiverState::open);
    channel.receiver.set_state(ReceiverState::closed);
    channel.receiver.set_state(ReceiverState::error);
    EXPECT_EQ(channel.sender.receiver_state(), ReceiverState::closed);
}

TEST(Channel, answers_come_in_the_room_of_their_questions) {
    Channel channel(256);
    const auto ask = [&] {
        if (channel.sender.reserve_whole(kQuestionBytes + 48) == nullptr) return false;
        channel.sender.commit_question({kQuestionBytes + 48, kGetRecord, 0, 0});
        return true;
    };
    const auto answer = [&](char text) {
        RecordHeader record;
        const std::byte* payload = nullptr;
        while (channel.receiver.peek(record, payload) == Peek::record &&
               record.flags == kFillerRecord)
            channel.receiver.release(record);
        const std::vector<std::byte> bytes(48, static_cast<std::byte>(text));
        channel.receiver.set_answer(payload, bytes.data(), bytes.size());
        channel.receiver.release(record);
    };
    for (int lap = 0; lap < 100; ++lap) {
        ASSERT_TRUE(ask());
        ASSERT_TRUE(ask());
        answer('a'), answer('b');
        // All is given back, and nothing may be written over the answers.
        while (ask()) answer('c');
        ASSERT_LE(channel.sender.untaken_answers(), 3U);
        EXPECT_EQ(static_cast<char>(channel.sender.answer()[47]), 'a');
        channel.sender.take_answer();
        EXPECT_EQ(static_cast<char>(channel.sender.answer()[0]), 'b');
        channel.sender.take_answer();
        if (channel.sender.untaken_answers() != 0) channel.sender.take_answer();
    }
}

// What was read is counted in private memory.
TEST(Channel, a_peer_that_writes_the_receivers_count_makes_nothing_pending) {
    Channel channel(1024);
    ASSERT_TRUE(channel.put("text"));
    EXPECT_TRUE(channel.receiver.pending());
    EXPECT_EQ(channel.take(), "text");
    channel.header().drain.consumed.store(1 << 20);
    EXPECT_FALSE(channel.receiver.pending());
}

TEST(ChannelSlab, gives_a_slot_again_only_when_its_sender_has_let_go) {
    ChannelSlabs slabs;
    std::vector<ChannelReceiver> all;  // of the first slab
    for (int i = 0; i < 64; ++i) all.push_back(make_receiver(slabs, 64));
    const auto first = all.front().lend();
    std::optional<ChannelSender> sender(first);
    all.erase(all.begin());
    ChannelReceiver elsewhere = make_receiver(slabs, 64);
    EXPECT_NE(elsewhere.lend().memory, first.memory) << "its sender is there still";
    sender.reset();
    ChannelReceiver again = make_receiver(slabs, 64);
    EXPECT_EQ(again.lend().memory, first.memory);
    EXPECT_EQ(again.lend().offset, first.offset);
}

TEST(ChannelSlab, gives_a_slot_again_whose_senders_process_has_ended) {
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        close(alive[1]);
        _exit(read(alive[0], &byte, 1) == 0 ? 0 : 1);
    }
    ChannelSlabs slabs;
    std::vector<ChannelReceiver> all;  // of the first slab
    for (int i = 0; i < 64; ++i) all.push_back(make_receiver(slabs, 64));
    const auto first = all.front().lend(std::make_shared<PeerProcess>(child));
    all.erase(all.begin());
    EXPECT_NE(make_receiver(slabs, 64).lend().memory, first.memory);
    close(alive[0]), close(alive[1]);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    ChannelReceiver again = make_receiver(slabs, 64);
    EXPECT_EQ(again.lend().offset, first.offset);
    EXPECT_EQ(again.lend().memory, first.memory);
}

TEST(ChannelSlab, a_peer_that_lets_go_of_nothing_gets_no_more) {
    if (verbatim::test::kSanitized) GTEST_SKIP() << "slow; runs in every other build";
    ChannelSlabs slabs;
    std::vector<ChannelReceiver> kept;  // some of each slab, which goes otherwise
    std::size_t given = 0;
    const auto take_one = [&] {
        ChannelReceiver receiver = make_receiver(slabs, 64);
        receiver.lend();
        if (++given % 32 == 0) kept.push_back(std::move(receiver));
    };
    EXPECT_THROW(while (given <= 3 * ChannelSlabs::kMostClosing) take_one(), Error);
    EXPECT_GE(given, ChannelSlabs::kMostClosing);
}

TEST(ChannelSlab, keeps_peers_apart_and_goes_with_its_last_slot) {
    ChannelSlabs slabs;
    const ChannelTerms terms{.ring_bytes = 64};
    std::weak_ptr<ChannelSlab> slab;
    {
        const ChannelSlot one = slabs.take(Nonce{1}, terms.bytes());
        const ChannelSlot two = slabs.take(Nonce{2}, terms.bytes());
        const ChannelSlot three = slabs.take(Nonce{1}, terms.bytes());
        EXPECT_NE(one.slab(), two.slab());
        EXPECT_EQ(one.slab(), three.slab());
        EXPECT_NE(one.number(), three.number());
        slab = one.slab();
    }
    EXPECT_TRUE(slab.expired());
}

}  // namespace
}  // namespace verbatim::softnic
