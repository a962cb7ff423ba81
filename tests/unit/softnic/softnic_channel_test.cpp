// The two-sided ring alone: flow of records, and a peer that writes nonsense.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <verbatim/driver/error.hpp>

#include "channel.hpp"

namespace verbatim::softnic {
namespace {

using Peek = ChannelReceiver::Peek;

struct Channel {
    explicit Channel(std::size_t ring_bytes) : receiver(ring_bytes), sender(receiver.memory()) {}

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
    ChannelHeader& header() { return *reinterpret_cast<ChannelHeader*>(receiver.memory()->data()); }
    std::byte* ring() { return receiver.memory()->data() + kChannelHeaderBytes; }
    Peek peek() {
        RecordHeader record;
        const std::byte* payload = nullptr;
        return receiver.peek(record, payload);
    }

    ChannelReceiver receiver;
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
    const auto expect_refusal = [](const std::shared_ptr<SharedMemory>& memory) {
        try {
            const ChannelSender sender(memory);
            FAIL();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::protocol_error);
        }
    };
    expect_refusal(SharedMemory::create("test", 8192, true));
    for (const std::uint64_t ring_bytes :
         {std::uint64_t{0}, std::uint64_t{48}, std::uint64_t{8192}, std::uint64_t{1} << 63}) {
        const ChannelReceiver receiver(4096);
        reinterpret_cast<ChannelHeader*>(receiver.memory()->data())->fixed.ring_bytes = ring_bytes;
        expect_refusal(receiver.memory());
    }
}

TEST(Channel, state_only_goes_up) {
    Channel channel(64);
    EXPECT_EQ(channel.sender.receiver_state(), ReceiverState::open);
    channel.receiver.set_state(ReceiverState::closed);
    channel.receiver.set_state(ReceiverState::error);
    EXPECT_EQ(channel.sender.receiver_state(), ReceiverState::closed);
}

}  // namespace
}  // namespace verbatim::softnic
