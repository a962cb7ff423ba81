// Frames of the tcp port: what is taken, every cut, every changed byte, random bytes.
#include <gtest/gtest.h>

#include <random>

#include "rings/remote_atomic.hpp"
#include "softnic_frames.hpp"

namespace verbatim::softnic::test {
namespace {

FrameState look(const Bytes& bytes, Frame& frame) { return next_frame(bytes, frame); }
FrameState look(const Bytes& bytes) {
    Frame frame;
    return look(bytes, frame);
}

std::vector<Bytes> examples() {
    const Bytes payload = pattern(100);
    return {frame_of(FrameKind::send, 1, MessageBody{100, 0}, payload, kFirstPart | kLastPart),
            frame_of(FrameKind::send, 2, MessageBody{0, 7}, {},
                     kFirstPart | kLastPart | kCarriesImmediate | kSolicitedFrame),
            frame_of(FrameKind::write, 3, WriteBody{4096, 5, 0}, payload),
            frame_of(FrameKind::notice, 4, MessageBody{100, 9}, {}, kSolicitedFrame),
            frame_of(FrameKind::read, 5, ReadBody{4096, 5, 100}),
            frame_of(FrameKind::atomic, 6, RemoteAtomic{}),
            frame_of(FrameKind::words, 0, WordsBody{.taken = 6, .acknowledged = 5}),
            frame_of(FrameKind::result, 5, std::array<std::byte, 100>{})};
}

TEST(Frames, are_taken_whole_only) {
    for (const Bytes& whole : examples()) {
        for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
            ASSERT_EQ(look(Bytes(whole.begin(), whole.begin() + static_cast<long>(bytes))),
                      FrameState::partial);
        Frame frame;
        ASSERT_EQ(look(whole, frame), FrameState::whole);
        EXPECT_EQ(frame.header.bytes, whole.size());
        EXPECT_EQ(frame.body.size(), whole.size() - sizeof(FrameHeader));
    }
}

TEST(Frames, with_impossible_lengths_are_malformed_at_once) {
    for (const std::uint32_t bytes : {0u, 15u, std::uint32_t{kMaxFrameBytes} + 1, ~0u}) {
        Bytes whole = examples()[0];
        std::memcpy(whole.data(), &bytes, sizeof bytes);
        EXPECT_EQ(look(whole), FrameState::malformed) << bytes;
    }
}

TEST(Frames, that_contradict_their_kind_are_malformed) {
    const Bytes payload = pattern(8);
    const std::vector<Bytes> bad{
        frame_of(FrameKind{0}, 1, MessageBody{}),
        frame_of(FrameKind{9}, 1, MessageBody{}),
        frame_of(FrameKind::send, 0, MessageBody{}, {}, kFirstPart | kLastPart),
        frame_of(FrameKind::send, 1, std::uint32_t{0}),
        frame_of(FrameKind::send, 1, MessageBody{}, {}, 32),
        frame_of(FrameKind::send, 1, MessageBody{}, {}, kFirstPart | kCarriesImmediate),
        frame_of(FrameKind::send, 1, MessageBody{}, {},
                 kLastPart | kCarriesImmediate | kCarriesKey),
        frame_of(FrameKind::write, 1, WriteBody{}),
        frame_of(FrameKind::write, 1, WriteBody{0, 0, 1}, payload),
        frame_of(FrameKind::write, 1, WriteBody{}, payload, kLastPart),
        frame_of(FrameKind::notice, 1, MessageBody{}, payload),
        frame_of(FrameKind::notice, 1, MessageBody{}, {}, kFirstPart),
        frame_of(FrameKind::read, 1, ReadBody{0, 0, 0}),
        frame_of(FrameKind::read, 1, ReadBody{0, 0, static_cast<std::uint32_t>(kMaxResult + 1)}),
        frame_of(FrameKind::atomic, 1, std::uint64_t{0}),
        frame_of(FrameKind::words, 1, WordsBody{}),
        frame_of(FrameKind::words, 0, WordsBody{.taken = 1, .acknowledged = 2}),
        frame_of(FrameKind::words, 0, WordsBody{.state = 3}),
        frame_of(FrameKind::words, 0, WordsBody{.not_ready_for = ~std::uint64_t{0}}),
        frame_of(FrameKind::give_up, 0, std::uint32_t{0}),
    };
    for (std::size_t i = 0; i < bad.size(); ++i)
        EXPECT_EQ(look(bad[i]), FrameState::malformed) << i;
}

// Whatever comes, a frame lies within the bytes that there are.
TEST(Frames, of_random_bytes_never_lead_outside) {
    std::mt19937_64 random(17);
    const auto seeds = examples();
    for (int round = 0; round < 200000; ++round) {
        Bytes bytes = seeds[random() % seeds.size()];
        for (std::uint64_t i = 0, n = 1 + random() % 4; i < n; ++i)
            bytes[random() % std::min<std::size_t>(bytes.size(), 40)] =
                static_cast<std::byte>(random());
        Frame frame;
        if (look(bytes, frame) != FrameState::whole) continue;
        ASSERT_LE(frame.header.bytes, bytes.size());
        ASSERT_EQ(frame.body.data(), bytes.data() + sizeof(FrameHeader));
        ASSERT_EQ(frame.body.size() + sizeof(FrameHeader), frame.header.bytes);
    }
}

}  // namespace
}  // namespace verbatim::softnic::test
