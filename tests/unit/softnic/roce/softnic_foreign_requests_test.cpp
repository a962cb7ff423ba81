// The responder of the udp port against a foreign peer that the test plays packet by packet: what
// cards send and our own requester does not.
#include <gtest/gtest.h>

#include <set>

#include "ports/roce/packets/message_opcodes.hpp"
#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using Peer = PacketPeer;

class ForeignRequester : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end, Peer::Meets::receiver};
};

TEST_F(ForeignRequester, gets_an_empty_response_to_a_read_of_no_bytes) {
    RemoteHeader nothing = peer.remote(64, 0);
    nothing.key = mlx5::be32(0);            // which is not looked at
    for (int time = 0; time < 2; ++time) {  // the second time it is a duplicate
        peer.send(PacketOpcode::read_request, Peer::own(0), nothing);
        const Arrived answer = peer.next();
        ASSERT_EQ(answer.packet.opcode, PacketOpcode::response_only);
        EXPECT_EQ(answer.packet.sequence, Peer::own(0));
        EXPECT_EQ(answer.syndrome(), kAcknowledged);
        EXPECT_TRUE(answer.packet.payload.empty());
    }
    EXPECT_EQ(peer.settle(Peer::own(1)), 0);
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::ready_to_receive);
}

TEST_F(ForeignRequester, gets_empty_responses_in_the_order_of_its_requests) {
    const auto value = pattern(8, 7);
    std::copy(value.begin(), value.end(), end.at(64));
    constexpr std::uint32_t kRequests = 40;
    for (std::uint32_t i = 0; i < kRequests; ++i)
        peer.send(PacketOpcode::read_request, Peer::own(i), peer.remote(64, i % 3 == 1 ? 8 : 0));
    for (std::uint32_t i = 0; i < kRequests; ++i) {
        const Arrived answer = peer.next();
        ASSERT_EQ(answer.packet.opcode, PacketOpcode::response_only);
        ASSERT_EQ(answer.packet.sequence, Peer::own(i));
        const auto wanted = i % 3 == 1 ? value : pattern(0);
        ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), answer.packet.payload.begin(),
                               answer.packet.payload.end()));
    }
}

// The read is answered behind the message before it.
TEST_F(ForeignRequester, gets_no_empty_response_before_the_message_has_its_receive) {
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20)));
    peer.send(PacketOpcode::read_request, Peer::own(1), peer.remote(64, 0));
    EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    const Arrived answer = peer.next(PacketOpcode::response_only);
    EXPECT_EQ(answer.packet.sequence, Peer::own(1));
    EXPECT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 1; }));
}

// Empty responses that are to come have 32 places. What is behind a full list is dropped, so that
// what follows goes on being read.
TEST_F(ForeignRequester, may_read_nothing_more_often_than_there_are_places_behind_a_message) {
    static_cast<QueuePair&>(*end.queue_pair).states().send_packets({.first_sequence = 500});
    const auto message = peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20));
    const auto ask = [this](std::uint32_t first, std::uint32_t last) {
        for (std::uint32_t i = first; i <= last; ++i)
            peer.send(PacketOpcode::read_request, Peer::own(i), peer.remote(64, 0));
    };
    peer.send(message);
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).syndrome() & 0xe0, kNotReady);
    constexpr std::uint32_t kReads = 40, kPlaces = 32;
    ask(1, kReads);
    ASSERT_EQ(end.post_write(pattern(8), 0, 9), Errc::ok);
    peer.answer(peer.next(PacketOpcode::write_only).packet.sequence, kAcknowledged);
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return !peer.seen.empty(); }));
    EXPECT_EQ(peer.seen[0].id, 9u);
    EXPECT_EQ(peer.seen[0].status, Errc::ok);
    peer.send(message);
    const Arrived again = peer.next(PacketOpcode::acknowledge);
    EXPECT_EQ(again.syndrome() & 0xe0, kNotReady);
    EXPECT_EQ(again.packet.sequence, Peer::own(0));
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    for (std::uint32_t i = 1; i <= kPlaces; ++i)
        ASSERT_EQ(peer.next(PacketOpcode::response_only).packet.sequence, Peer::own(i));
    const Arrived gap = peer.next(PacketOpcode::acknowledge);
    EXPECT_EQ(gap.syndrome(), kWrongSequence);
    EXPECT_EQ(gap.packet.sequence, Peer::own(kPlaces + 1));
    ask(kPlaces + 1, kReads);
    for (std::uint32_t i = kPlaces + 1; i <= kReads; ++i)
        ASSERT_EQ(peer.next(PacketOpcode::response_only).packet.sequence, Peer::own(i));
}

TEST_F(ForeignRequester, may_write_and_send_nothing) {
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    ASSERT_EQ(end.post_receive(192, 64, 6), Errc::ok);
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 0));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(0));
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(1)));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(1));
    struct {
        RemoteHeader remote;
        ImmediateHeader immediate;
    } const noticed{peer.remote(64, 0), {mlx5::be32(77).raw()}};
    peer.send(PacketOpcode::write_only_immediate, Peer::own(2), noticed);
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(2));
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 2; }));
    EXPECT_EQ(peer.seen[0].bytes, 0u);
    EXPECT_EQ(peer.seen[1].bytes, 0u);
    EXPECT_EQ(peer.seen[1].immediate, 77u);
}

// Right in everything, its checksum included, but for the address that it comes from.
TEST_F(ForeignRequester, is_not_another_address_that_sends_right_packets) {
    constexpr std::uint64_t kPackets = 20;
    const Forger forger({127, 0, 0, 9});
    const auto remote = peer.remote(64, 8);
    const auto forged = Peer::sealed(peer.make(PacketOpcode::write_only, Peer::own(0),
                                               std::as_bytes(std::span(&remote, 1)), pattern(8)),
                                     PacketChecksum(forger.place(), peer.ends_place()));
    for (std::uint64_t i = 0; i < kPackets; ++i) forger.send(peer.ends_place(), forged);
    EXPECT_EQ(peer.settle(Peer::own(0)), 0);
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
    EXPECT_EQ(packet_counts(*end.queue_pair).dropped, kPackets);
}

// Reads 1 MiB at the path MTU of 1024 as a card does, which loses packets of the response: it takes
// them in their order. Behind a gap, and when nothing more comes, it asks for all that is missing.
class LossyReader {
  public:
    static constexpr std::size_t kBytes = 1 << 20, kMtu = 1024;
    static constexpr std::uint32_t kPackets = kBytes / kMtu;

    // The peer's packets from `first` on.
    LossyReader(Peer& peer, std::uint32_t first) : peer_(peer), first_(first) {}

    // Each packet of `lost` is lost once. Returns what has come.
    std::vector<std::byte> read(std::vector<std::uint32_t> lost) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        for (ask(); got_.size() != kBytes && std::chrono::steady_clock::now() < deadline;) {
            const auto arrived = peer_.look();
            if (arrived)
                take(arrived->packet, lost);
            else if (std::chrono::steady_clock::now() > timer_)
                ask();
        }
        EXPECT_TRUE(lost.empty());
        return got_;
    }

  private:
    static constexpr std::chrono::milliseconds kTimer{100};

    std::uint32_t place() const { return static_cast<std::uint32_t>(got_.size() / kMtu); }
    void ask() {
        begins_.insert(place());
        recovers_ = true;
        timer_ = std::chrono::steady_clock::now() + kTimer;
        peer_.send(PacketOpcode::read_request, Peer::own(first_ + place()),
                   peer_.remote(got_.size(), kBytes - got_.size()));
    }
    void take(const WirePacket& packet, std::vector<std::uint32_t>& lost) {
        const std::uint32_t at = place();
        const std::uint32_t ahead = (packet.sequence - Peer::own(first_ + at)) & kSequenceMask;
        if (ahead == 0 && std::erase(lost, at) != 0) {
            recovers_ = false;
        } else if (ahead == 0) {
            append(packet);
        } else if (ahead < kPackets && !recovers_) {
            ask();
        }
    }
    void append(const WirePacket& packet) {
        const std::uint32_t at = place();
        const bool last = at + 1 == kPackets;
        const bool begins = packet.opcode == response_opcode(true, last);
        EXPECT_TRUE(begins ? begins_.contains(at) : packet.opcode == response_opcode(false, last));
        got_.insert(got_.end(), packet.payload.begin(), packet.payload.end());
        recovers_ = false;
        timer_ = std::chrono::steady_clock::now() + kTimer;
    }

    Peer& peer_;
    const std::uint32_t first_;
    std::vector<std::byte> got_;
    std::set<std::uint32_t> begins_;  // where responses may begin
    bool recovers_ = false;           // nothing of the last request has come
    std::chrono::steady_clock::time_point timer_;
};

TEST(LongRead, survives_lost_packets_wherever_they_are) {
    End end{packet_end_options()};
    Peer peer(end, Peer::Meets::receiver, LossyReader::kMtu);
    std::uint32_t first = 0;
    for (const std::vector<std::uint32_t>& lost : std::initializer_list<std::vector<std::uint32_t>>{
             {10}, {0}, {1023}, {1000}, {3, 4, 5}, {100, 600, 900, 1022}}) {
        const auto payload = pattern(LossyReader::kBytes, first);
        std::copy(payload.begin(), payload.end(), end.at(0));
        ASSERT_TRUE(LossyReader(peer, first).read(lost) == payload) << lost[0];
        first += LossyReader::kPackets;
        ASSERT_EQ(end.queue_pair->state(), QueuePairState::ready_to_receive);
    }
    EXPECT_EQ(peer.settle(Peer::own(first)), 0);
}

// Packets of two pieces each, of which the ring answers eight: the reads behind the message end
// amid the last packet. The packet before it is lost then.
class HalfAPacket : public testing::Test {
  protected:
    static constexpr std::size_t kLong = 4096;
    // Its sequences: the message, a read of 8 bytes, one of four packets.
    static constexpr std::uint32_t kThird = 4, kFourth = 5;

    void SetUp() override {
        std::copy(payload.begin(), payload.end(), end.at(0));
        const auto message = peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20));
        peer.send(message);
        EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
        peer.send(PacketOpcode::read_request, Peer::own(1), peer.remote(0, 8));
        peer.send(PacketOpcode::read_request, Peer::own(2), peer.remote(0, payload.size()));
        peer.send(message);  // behind which the reads were looked at
        EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
        ASSERT_EQ(end.post_receive(1 << 17, 64, 5), Errc::ok);
        while (peer.next(PacketOpcode::response_middle).packet.sequence != Peer::own(kThird))
            ASSERT_FALSE(HasFailure());
        const Arrived gap = peer.next(PacketOpcode::acknowledge);
        ASSERT_EQ(gap.syndrome(), kWrongSequence);
        ASSERT_EQ(gap.packet.sequence, Peer::own(kFourth));
    }
    // Of the four packets, the one with this opcode and number; it has the right bytes.
    bool is(const WirePacket& packet, PacketOpcode opcode, std::uint32_t nth) const {
        const auto* const wanted = payload.data() + (nth - 2) * kLong;
        return packet.opcode == opcode && packet.sequence == Peer::own(nth) &&
               std::equal(packet.payload.begin(), packet.payload.end(), wanted, wanted + kLong);
    }
    // Asks for both as a card does, again when a timer ends: the response begins with the third
    // one.
    bool reads_both() {
        constexpr std::chrono::milliseconds kTimer{100};
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        auto timer = std::chrono::steady_clock::now();
        bool third = false, fourth = false;
        while (!(third && fourth) && std::chrono::steady_clock::now() < deadline) {
            if (std::chrono::steady_clock::now() >= timer) {
                peer.send(PacketOpcode::read_request, Peer::own(kThird),
                          peer.remote(2 * kLong, 2 * kLong));
                timer = std::chrono::steady_clock::now() + kTimer;
            }
            const auto arrived = peer.look();
            if (!arrived) continue;
            third |= is(arrived->packet, PacketOpcode::response_first, kThird);
            fourth |= third && is(arrived->packet, PacketOpcode::response_last, kFourth);
        }
        return third && fourth;
    }

    static EndOptions options() {
        EndOptions options = packet_end_options();
        options.device.ring_bytes = 1 << 16;
        return options;
    }
    const std::vector<std::byte> payload = pattern(4 * kLong, 3);
    End end{options()};
    Peer peer{end, Peer::Meets::receiver, kLong};
};

TEST_F(HalfAPacket, is_completed_when_the_packet_before_it_is_asked_for_with_it) {
    EXPECT_TRUE(reads_both());
    EXPECT_EQ(peer.settle(Peer::own(kFourth + 1)), 0);
}

// Two packets, of which the second one is lost.
class LostPart : public ForeignRequester {
  protected:
    LostPart() {
        peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(512, 2 * Peer::kMtu));
        peer.next(PacketOpcode::response_first);
        peer.next(PacketOpcode::response_last);
    }
    void ask_again() { peer.send(PacketOpcode::read_request, Peer::own(1), rest); }
    void expect_again(const std::vector<std::byte>& wanted) {
        const Arrived again = peer.next(PacketOpcode::response_only);
        EXPECT_EQ(again.packet.sequence, Peer::own(1));
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), again.packet.payload.begin(),
                               again.packet.payload.end()));
    }
    RemoteHeader rest = peer.remote(512 + Peer::kMtu, Peer::kMtu);
};

TEST_F(LostPart, is_read_from_memory_again) {
    const auto newer = pattern(Peer::kMtu, 9);
    std::copy(newer.begin(), newer.end(), end.at(512 + Peer::kMtu));
    for (int time = 0; time < 3; ++time) {
        ask_again();
        expect_again(newer);
    }
    EXPECT_EQ(peer.settle(Peer::own(2)), 0);
}

TEST_F(LostPart, is_judged_again) {
    end.region.reset();
    ask_again();
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).syndrome(), kNoAccess);
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::error);
}

TEST_F(LostPart, is_refused_by_its_own_number_each_time) {
    end.region.reset();
    for (int time = 0; time < 3; ++time) {
        ask_again();
        const Arrived refusal = peer.next(PacketOpcode::acknowledge);
        EXPECT_EQ(refusal.syndrome(), kNoAccess);
        EXPECT_EQ(refusal.packet.sequence, Peer::own(1));
    }
}

TEST_F(LostPart, is_read_again_amid_a_message) {
    ASSERT_EQ(end.post_receive(4096, 1024, 5), Errc::ok);
    const auto payload = pattern(2 * Peer::kMtu, 4);
    const std::span<const std::byte> all(payload);
    peer.send(peer.make(PacketOpcode::send_first, Peer::own(2), {}, all.first(Peer::kMtu)));
    ask_again();
    expect_again(std::vector<std::byte>(Peer::kMtu));
    peer.send(peer.make(PacketOpcode::send_last, Peer::own(3), {}, all.subspan(Peer::kMtu)));
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 1; }));
    EXPECT_EQ(peer.seen[0].bytes, payload.size());
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), end.at(4096)));
    ask_again();
    expect_again(std::vector<std::byte>(Peer::kMtu));
}

// It would wait for the receive, too. Its requester asks once more.
TEST_F(LostPart, behind_a_message_without_a_receive_is_read_when_that_has_come) {
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(2), {}, pattern(20)));
    while ((peer.next(PacketOpcode::acknowledge).syndrome() & 0xe0) != kNotReady && !HasFailure()) {
    }
    ask_again();
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(2), {}, pattern(20)));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).syndrome() & 0xe0, kNotReady);
    ASSERT_EQ(end.post_receive(4096, 64, 5), Errc::ok);
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).syndrome(), kAcknowledged);
    ask_again();
    expect_again(std::vector<std::byte>(Peer::kMtu));
}

// The first packet is asked for again from what is kept, with the values of then.
TEST_F(LostPart, of_a_whole_response_that_is_kept_has_its_first_values) {
    std::memset(end.at(512), 1, 2 * Peer::kMtu);
    peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(512, 2 * Peer::kMtu));
    const Arrived again = peer.next(PacketOpcode::response_first);
    EXPECT_EQ(again.packet.payload[0], std::byte{0});
    peer.next(PacketOpcode::response_last);
}

}  // namespace
}  // namespace verbatim::softnic::test
