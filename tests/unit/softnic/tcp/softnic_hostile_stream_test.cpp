// Peers of the tcp port that break its protocol: strangers at the listener, bytes in pieces, frames
// that make no sense, answers to nothing. The queue pair fails with a reason, every request ends in
// one completion, and no memory is touched that no key allows.
#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <random>
#include <utility>

#include "rings/remote_atomic.hpp"
#include "softnic_frames.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Opcode;

// The end of the stream, or the word that the queue pair has failed.
bool hears_of_the_end(RawStream& stream) {
    Bytes heard;
    while (stream.readable(20000)) {
        const Bytes more = stream.get();
        if (more.empty()) return true;
        heard.insert(heard.end(), more.begin(), more.end());
        Frame frame;
        for (Bytes rest = heard; next_frame(rest, frame) == FrameState::whole;) {
            if (frame.header.kind == FrameKind::words && frame.read<WordsBody>().state != 0)
                return true;
            rest.erase(rest.begin(), rest.begin() + frame.header.bytes);
        }
    }
    return false;
}

// A frame that the peer sends, and that must end the connection.
void expect_refusal(const Bytes& bytes, const char* reason) {
    Victim victim(tcp_options());
    RawStream stream(victim.port());
    ASSERT_TRUE(victim.meet(stream));
    ASSERT_EQ(victim.end.post_write(pattern(8), 0, 1), Errc::ok);
    ASSERT_EQ(victim.end.post_receive(0, 64, 2), Errc::ok);
    ASSERT_TRUE(stream.put(bytes));
    ASSERT_TRUE(victim.fails()) << reason;
    ASSERT_TRUE(poll_until({&victim.end}, {&victim.seen}, [&] { return victim.seen.size() == 2; }));
    EXPECT_NE(failure_text(*victim.end.queue_pair).find(reason), std::string::npos)
        << failure_text(*victim.end.queue_pair);
    for (const auto& completion : victim.seen) EXPECT_NE(completion.status, Errc::ok);
    EXPECT_TRUE(hears_of_the_end(stream)) << reason;
    EXPECT_TRUE(victim.end.poll().empty());
}

TEST(HostileStream, frames_that_make_no_sense_fail_the_queue_pair) {
    const Bytes payload = pattern(8);
    Bytes garbage;
    std::mt19937 random(3);
    for (int i = 0; i < 1000; ++i) garbage.push_back(static_cast<std::byte>(random()));
    expect_refusal(garbage, "malformed frame");
    expect_refusal(frame_of(FrameKind::words, 0, WordsBody{.taken = 1000}), "unexpected frame");
    expect_refusal(frame_of(FrameKind::result, 1, payload), "unexpected frame");
    expect_refusal(frame_of(FrameKind::result, 7, std::uint64_t{0}), "unexpected frame");
    const MessageBody body{8, 0};
    expect_refusal(frame_of(FrameKind::send, 5, body, payload, kFirstPart | kLastPart),
                   "unexpected frame");
    expect_refusal(frame_of(FrameKind::send, 1, body, payload, kLastPart), "whole messages");
    Bytes twice = frame_of(FrameKind::send, 1, body, payload, kFirstPart);
    const Bytes again = frame_of(FrameKind::send, 2, body, payload, kFirstPart | kLastPart);
    twice.insert(twice.end(), again.begin(), again.end());
    expect_refusal(twice, "whole messages");
    RemoteAtomic atomic;
    atomic.bytes = 3;
    expect_refusal(frame_of(FrameKind::atomic, 1, atomic), "misaligned or not allowed");
}

TEST(HostileStream, keys_are_judged_here) {
    const Bytes payload = pattern(8);
    expect_refusal(frame_of(FrameKind::write, 1, WriteBody{4096, 0xbad00, 0}, payload),
                   "not allowed");
    expect_refusal(frame_of(FrameKind::read, 1, ReadBody{4096, 0xbad00, 64}), "not allowed");
    EndOptions options = tcp_options();
    options.access = Access::local_write | Access::remote_read;
    Victim victim(options);
    RawStream stream(victim.port());
    ASSERT_TRUE(victim.meet(stream));
    const EndAddress address = victim.end.address();
    ASSERT_TRUE(stream.put(
        frame_of(FrameKind::write, 1, WriteBody{address.address, address.key, 0}, payload)));
    ASSERT_TRUE(victim.fails());
    EXPECT_EQ(victim.end.value<std::uint64_t>(0), 0u);
}

// A requester never has more on its way than the responder has room for.
TEST(HostileStream, questions_without_end_are_refused) {
    Victim victim(tcp_options());
    RawStream stream(victim.port());
    ASSERT_TRUE(victim.meet(stream));
    const EndAddress address = victim.end.address();
    Bytes questions;
    for (std::uint64_t i = 1; i <= 4096; ++i)
        for (const std::byte byte : frame_of(
                 FrameKind::read, i,
                 ReadBody{address.address, address.key, static_cast<std::uint32_t>(kMaxResult)}))
            questions.push_back(byte);
    ASSERT_TRUE(stream.put(questions));
    // Nothing is read here: the answers fill the socket, then the room for them.
    ASSERT_TRUE(victim.fails());
    EXPECT_NE(failure_text(*victim.end.queue_pair).find("more results"), std::string::npos)
        << failure_text(*victim.end.queue_pair);
}

// Frames that are whole, in numbers that fit, with fields that fit now and then.
Bytes random_frame(std::mt19937_64& random, std::uint64_t number, const EndAddress& target) {
    const bool good = random() % 4 != 0;
    const std::uint64_t address = good ? target.address + random() % 4096 : random();
    const std::uint32_t key = good ? target.key : static_cast<std::uint32_t>(random());
    const Bytes payload = pattern(1 + random() % 6000);
    const MessageBody message{static_cast<std::uint32_t>(random()), 7};
    RemoteAtomic atomic;
    switch (random() % 6) {
        case 0:
            return frame_of(FrameKind::send, number, message, payload,
                            static_cast<std::uint8_t>(random() % 2 == 0 ? 3 : random() % 32));
        case 1:
            return frame_of(FrameKind::write, number, WriteBody{address, key, 0}, payload);
        case 2:
            return frame_of(FrameKind::notice, number, message);
        case 3:
            return frame_of(
                FrameKind::read, number,
                ReadBody{address, key, static_cast<std::uint32_t>(1 + random() % 20000)});
        case 4:
            atomic.address = address & ~std::uint64_t{7};
            atomic.key = key;
            atomic.bytes = static_cast<std::uint16_t>(random() % 3 * 4);
            return frame_of(FrameKind::atomic, number, atomic);
        default:
            return frame_of(FrameKind::words, 0,
                            WordsBody{.taken = random() % 4,
                                      .acknowledged = 0,
                                      .stops = static_cast<std::uint32_t>(random() % 3)});
    }
}

TEST(HostileStream, random_requests_touch_nothing_outside_and_end_every_request) {
    std::mt19937_64 random(23);
    for (int round = 0; round < 60; ++round) {
        Victim victim(tcp_options());
        RawStream stream(victim.port());
        ASSERT_TRUE(victim.meet(stream));
        for (std::uint64_t id = 0; id < 4; ++id) {
            ASSERT_EQ(victim.end.post_receive(100000, 5000, id), Errc::ok);
            ASSERT_EQ(victim.end.post_write(pattern(8), 0, 100 + id), Errc::ok);
        }
        for (std::uint64_t number = 1; number <= 40; ++number)
            if (!stream.put(random_frame(random, number, victim.end.address()))) break;
        for (int i = 0; i < 20; ++i)
            for (const auto& completion : victim.end.poll()) victim.seen.push_back(completion);
        victim.end.queue_pair->fail();
        ASSERT_TRUE(poll_until({&victim.end}, {&victim.seen}, [&] {
            return victim.seen.size() == 8;
        })) << round;
        // Nothing behind what the requests can reach.
        for (std::size_t at = 200000; at < 300000; at += 8)
            ASSERT_EQ(victim.end.value<std::uint64_t>(at), 0u);
    }
}

// A frame behind a message without a receive, of which the responder's ring has taken a part. The
// message gets its receive later, and the peer gives the frame again.
class StoppedFrame {
  public:
    static constexpr std::size_t kRing = 4096, kTarget = 4096, kBytes = 8000;

    // With number 2; of kinds that have no length it has none.
    Bytes make(FrameKind kind, std::size_t bytes) const {
        const EndAddress to = victim.end.address();
        const auto length = static_cast<std::uint32_t>(bytes);
        RemoteAtomic atomic;
        atomic.address = to.address + kTarget;
        atomic.key = to.key;
        switch (kind) {
            case FrameKind::send:
                return frame_of(kind, 2, MessageBody{length, 0}, pattern(bytes),
                                kFirstPart | kLastPart);
            case FrameKind::write:
                return frame_of(kind, 2, WriteBody{to.address + kTarget, to.key, 0},
                                pattern(bytes));
            case FrameKind::read:
                return frame_of(kind, 2, ReadBody{to.address, to.key, length});
            case FrameKind::notice:
                return frame_of(kind, 2, MessageBody{length, 0});
            default:
                return frame_of(kind, 2, atomic);
        }
    }
    // False: the peer does not hear that it is to stop.
    bool stop_at(const Bytes& frame) {
        const Bytes message =
            frame_of(FrameKind::send, 1, MessageBody{20, 0}, pattern(20), kFirstPart | kLastPart);
        if (!victim.meet(stream) || !stream.put(message) || !stream.put(frame)) return false;
        return poll_until({&victim.end}, {&victim.seen}, [this] { return hears(true); });
    }
    // Whether words that say so are among the frames that came, up to them.
    bool hears(bool stopped) {
        Frame frame;
        while (next(frame)) {
            const bool said = frame.header.kind == FrameKind::words &&
                              (frame.read<WordsBody>().stopped != 0) == stopped;
            heard_.erase(heard_.begin(), heard_.begin() + frame.header.bytes);
            if (said) return true;
        }
        return false;
    }
    // The next frame that came, which stays.
    bool next(Frame& frame) {
        if (stream.readable(0))
            for (const std::byte byte : stream.get()) heard_.push_back(byte);
        return next_frame(heard_, frame) == FrameState::whole;
    }
    // Receives for both messages, if the frame is one.
    bool post_receives() {
        return victim.end.post_receive(0, 64, 1) == Errc::ok &&
               victim.end.post_receive(kTarget, 100000, 2) == Errc::ok;
    }
    // What is given while the responder is stopped is discarded, so it is given until `done`.
    template <class Done>
    bool give_until(const Bytes& frame, Done done) {
        constexpr std::chrono::milliseconds kTimer{20};
        auto timer = std::chrono::steady_clock::now();
        return poll_until({&victim.end}, {&victim.seen}, [&] {
            if (std::chrono::steady_clock::now() >= timer) {
                stream.put(frame);
                timer = std::chrono::steady_clock::now() + kTimer;
            }
            return done();
        });
    }

    Victim victim{options()};
    RawStream stream{victim.port()};

  private:
    static EndOptions options() {
        EndOptions options = tcp_options();
        options.device.ring_bytes = kRing;
        return options;
    }
    Bytes heard_;
};

void expect_refusal_of_another(FrameKind kind, FrameKind other, std::size_t others_bytes) {
    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << ", then "
                                    << static_cast<int>(other) << ", " << others_bytes);
    StoppedFrame stopped;
    End& end = stopped.victim.end;
    ASSERT_TRUE(stopped.stop_at(stopped.make(kind, StoppedFrame::kBytes)));
    ASSERT_TRUE(stopped.post_receives());
    ASSERT_TRUE(stopped.give_until(stopped.make(other, others_bytes), [&] {
        return end.queue_pair->state() == QueuePairState::error;
    }));
    const std::string text = failure_text(*end.queue_pair);
    EXPECT_NE(text.find("unexpected frame"), std::string::npos) << text;
    EXPECT_TRUE(hears_of_the_end(stopped.stream));
    // The part that was in the ring, and nothing of elsewhere behind it.
    const Bytes part = pattern(8);
    EXPECT_EQ(std::equal(part.begin(), part.end(), end.at(StoppedFrame::kTarget)),
              kind != FrameKind::read);
    EXPECT_TRUE(std::all_of(end.at(StoppedFrame::kTarget + StoppedFrame::kRing),
                            end.at(0) + end.memory.bytes(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
}

TEST(StoppedFrame, that_comes_again_shorter_than_the_part_in_the_ring_is_refused) {
    for (const FrameKind kind : {FrameKind::send, FrameKind::write, FrameKind::read})
        expect_refusal_of_another(kind, kind, 4);
}

TEST(StoppedFrame, that_comes_again_as_another_kind_is_refused) {
    using enum FrameKind;
    for (const auto& [kind, other] :
         std::initializer_list<std::pair<FrameKind, FrameKind>>{{send, write},
                                                                {write, send},
                                                                {write, read},
                                                                {read, write},
                                                                {write, notice},
                                                                {write, atomic}})
        expect_refusal_of_another(kind, other, StoppedFrame::kBytes);
}

TEST(StoppedFrame, that_comes_again_goes_on_behind_the_part_in_the_ring) {
    const Bytes payload = pattern(StoppedFrame::kBytes);
    for (const FrameKind kind : {FrameKind::send, FrameKind::write}) {
        StoppedFrame stopped;
        End& end = stopped.victim.end;
        const Bytes frame = stopped.make(kind, payload.size());
        ASSERT_TRUE(stopped.stop_at(frame));
        ASSERT_TRUE(stopped.post_receives());
        ASSERT_TRUE(stopped.give_until(frame, [&] {
            return std::equal(payload.begin(), payload.end(), end.at(StoppedFrame::kTarget));
        }));
        EXPECT_EQ(end.queue_pair->state(), QueuePairState::ready);
    }
}

// A part of its result is there, and words do not go amid a frame: the peer hears before.
TEST(StoppedFrame, that_is_a_read_is_answered_when_it_comes_again) {
    StoppedFrame stopped;
    End& end = stopped.victim.end;
    const Bytes frame = stopped.make(FrameKind::read, StoppedFrame::kBytes);
    ASSERT_TRUE(stopped.stop_at(frame));
    ASSERT_TRUE(stopped.post_receives());
    ASSERT_TRUE(poll_until({&end}, {&stopped.victim.seen}, [&] { return stopped.hears(false); }));
    ASSERT_TRUE(stopped.stream.put(frame));
    Frame result;
    ASSERT_TRUE(poll_until({&end}, {&stopped.victim.seen}, [&] {
        return stopped.next(result) &&
               (result.header.kind == FrameKind::result || (stopped.hears(false), false));
    }));
    EXPECT_EQ(result.header.number, 2u);
    EXPECT_EQ(result.body.size(), StoppedFrame::kBytes);
}

TEST(HostileStream, bytes_may_come_one_at_a_time) {
    Victim victim(tcp_options());
    RawStream stream(victim.port());
    Bytes hello;
    append(hello, victim.hello());
    for (const std::byte byte : hello) {
        ASSERT_TRUE(stream.put(std::span(&byte, 1)));
        usleep(200);
    }
    ASSERT_TRUE(stream.readable(20000));
    EXPECT_EQ(stream.get().size(), sizeof(StreamWelcome));
    const EndAddress address = victim.end.address();
    const auto payload = pattern(40);
    for (const std::byte byte :
         frame_of(FrameKind::write, 1, WriteBody{address.address + 4, address.key, 0}, payload)) {
        ASSERT_TRUE(stream.put(std::span(&byte, 1)));
        victim.end.poll();
    }
    WordsBody words;
    while (words.acknowledged == 0) {
        ASSERT_TRUE(poll_until({&victim.end}, {&victim.seen}, [&] { return stream.readable(0); }));
        Frame frame;
        for (Bytes answer = stream.get(); next_frame(answer, frame) == FrameState::whole;) {
            ASSERT_EQ(frame.header.kind, FrameKind::words);
            words = frame.read<WordsBody>();
            answer.erase(answer.begin(), answer.begin() + frame.header.bytes);
        }
    }
    EXPECT_EQ(words.acknowledged, 1u);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), victim.end.at(4)));
}

TEST(HostileStream, strangers_at_the_listener_disturb_nobody) {
    Victim victim(tcp_options());
    std::vector<std::unique_ptr<RawStream>> silent;
    for (int i = 0; i < 40; ++i) silent.push_back(std::make_unique<RawStream>(victim.port()));
    RawStream garbage(victim.port());
    ASSERT_TRUE(garbage.put(pattern(300)));
    EXPECT_TRUE(garbage.ended());
    for (const bool version : {true, false}) {
        StreamHello hello = victim.hello();
        if (version)
            ++hello.version;
        else
            ++hello.to[0];
        Bytes bytes;
        append(bytes, hello);
        RawStream wrong(victim.port());
        ASSERT_TRUE(wrong.put(bytes));
        ASSERT_TRUE(wrong.readable(20000));
        StreamWelcome welcome;
        const Bytes answer = wrong.get();
        ASSERT_EQ(answer.size(), sizeof welcome);
        std::memcpy(&welcome, answer.data(), sizeof welcome);
        EXPECT_EQ(welcome.status, version ? StreamStatus::other_version : StreamStatus::unknown);
        EXPECT_TRUE(wrong.ended());
    }
    RawStream stream(victim.port());
    EXPECT_TRUE(victim.meet(stream));
    RawStream second(victim.port());
    EXPECT_FALSE(victim.meet(second)) << "one stream for one queue pair";
}

TEST(HostileStream, a_peer_that_never_comes_fails_the_requests_in_time) {
    End end(tcp_options());
    EndAddress fake;
    fake.queue_pair = end.queue_pair->address();
    fake.queue_pair.number = 77;
    fake.queue_pair.stream_token = {};
    end.connect(fake, 200);
    ASSERT_EQ(end.post_write(pattern(8), 0, 1), Errc::ok);
    std::vector<mlx5::Completion> seen;
    ASSERT_TRUE(poll_until({&end}, {&seen}, [&] { return !seen.empty(); }));
    EXPECT_EQ(seen[0].status, Errc::retry_exceeded);
    EXPECT_NE(failure_text(*end.queue_pair).find("no stream of the peer came in time"),
              std::string::npos);
}

}  // namespace
}  // namespace verbatim::softnic::test
