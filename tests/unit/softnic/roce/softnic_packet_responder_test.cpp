// The responder of the udp port against a peer that the test plays packet by packet.
#include <gtest/gtest.h>

#include <random>

#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using Peer = PacketPeer;

class PacketResponder : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end};
};

TEST_F(PacketResponder, writes_and_acknowledges_across_the_wrap_of_sequences) {
    for (std::uint32_t i = 0; i < 5; ++i) {
        const auto payload = pattern(5 + i, i);
        peer.send(PacketOpcode::write_only, Peer::own(i), peer.remote(64, 5 + i), payload);
        const Arrived answer = peer.next();
        EXPECT_EQ(answer.packet.opcode, PacketOpcode::acknowledge);
        EXPECT_EQ(answer.packet.sequence, Peer::own(i));
        EXPECT_EQ(answer.syndrome(), kAcknowledged);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), end.at(64)));
    }
}

TEST_F(PacketResponder, acknowledges_a_duplicate_write_and_does_not_execute_it) {
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 8), pattern(8));
    peer.next();
    std::memset(end.at(64), 0, 8);
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 8), pattern(8));
    EXPECT_EQ(peer.next().packet.sequence, Peer::own(0));
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
}

TEST_F(PacketResponder, asks_once_for_what_is_missing) {
    for (const std::uint32_t ahead : {2u, 3u, 1u})
        peer.send(PacketOpcode::write_only, Peer::own(ahead), peer.remote(64, 8), pattern(8));
    const Arrived gap = peer.next();
    EXPECT_EQ(gap.syndrome(), kWrongSequence);
    EXPECT_EQ(gap.packet.sequence, Peer::own(0));
    EXPECT_EQ(peer.settle(Peer::own(0)), 0);
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
}

TEST_F(PacketResponder, executes_an_atomic_operation_once_and_answers_it_twice) {
    const auto address = reinterpret_cast<std::uint64_t>(end.at(64));
    const AtomicHeader add{SplitWord(address), mlx5::be32(end.region->remote_key()), SplitWord(5),
                           SplitWord(0)};
    for (int i = 0; i < 3; ++i) {
        peer.send(PacketOpcode::fetch_add, Peer::own(0), add);
        const Arrived answer = peer.next(PacketOpcode::atomic_acknowledge);
        EXPECT_EQ(answer.packet.sequence, Peer::own(0));
        EXPECT_EQ(answer.packet.read<AtomicAnswerHeader>().before.native(), 0u);
        EXPECT_EQ(end.value<std::uint64_t>(64), 5u);
    }
    const AtomicHeader swap{SplitWord(address), mlx5::be32(end.region->remote_key()), SplitWord(9),
                            SplitWord(5)};
    peer.send(PacketOpcode::compare_swap, Peer::own(1), swap);
    Arrived answer = peer.next(PacketOpcode::atomic_acknowledge);
    while (answer.packet.sequence != Peer::own(1) && !HasFailure())
        answer = peer.next(PacketOpcode::atomic_acknowledge);
    EXPECT_EQ(answer.packet.read<AtomicAnswerHeader>().before.native(), 5u);
    EXPECT_EQ(end.value<std::uint64_t>(64), 9u);
}

// A plain acknowledgement of the operation would complete it without its result at rdma_rxe.
TEST_F(PacketResponder, repeats_a_lost_atomic_response_for_a_duplicate_write_before_it) {
    const auto address = reinterpret_cast<std::uint64_t>(end.at(64));
    const AtomicHeader add{SplitWord(address), mlx5::be32(end.region->remote_key()), SplitWord(5),
                           SplitWord(0)};
    const auto write = [this](std::uint32_t nth) {
        peer.send(PacketOpcode::write_only, Peer::own(nth), peer.remote(128, 8), pattern(8));
    };
    write(0);
    EXPECT_EQ(peer.next().packet.sequence, Peer::own(0));
    peer.send(PacketOpcode::fetch_add, Peer::own(1), add);
    EXPECT_EQ(peer.next().packet.opcode, PacketOpcode::atomic_acknowledge);  // which is lost
    for (const bool before : {true, false}) {
        if (before)
            write(0);
        else
            peer.send(PacketOpcode::fetch_add, Peer::own(1), add);
        const Arrived again = peer.next();
        ASSERT_EQ(again.packet.opcode, PacketOpcode::atomic_acknowledge);
        EXPECT_EQ(again.packet.sequence, Peer::own(1));
        EXPECT_EQ(again.packet.read<AtomicAnswerHeader>().before.native(), 0u);
    }
    write(2);  // behind which nothing else comes
    const Arrived next = peer.next();
    EXPECT_EQ(next.packet.opcode, PacketOpcode::acknowledge);
    EXPECT_EQ(next.packet.sequence, Peer::own(2));
    EXPECT_EQ(end.value<std::uint64_t>(64), 5u);
}

TEST_F(PacketResponder, repeats_the_last_part_of_a_lost_response_for_a_duplicate_before_it) {
    const auto payload = pattern(2 * Peer::kMtu, 3);
    std::copy(payload.begin(), payload.end(), end.at(512));
    const auto write = [this](std::uint32_t nth) {
        peer.send(PacketOpcode::write_only, Peer::own(nth), peer.remote(128, 8), pattern(8));
    };
    write(0);
    EXPECT_EQ(peer.next().packet.sequence, Peer::own(0));
    peer.send(PacketOpcode::read_request, Peer::own(1), peer.remote(512, payload.size()));
    for (const std::uint32_t nth : {1u, 2u}) EXPECT_EQ(peer.next().packet.sequence, Peer::own(nth));
    write(0);
    const Arrived again = peer.next();
    ASSERT_EQ(again.packet.opcode, PacketOpcode::response_last);
    EXPECT_EQ(again.packet.sequence, Peer::own(2));
    EXPECT_TRUE(std::equal(again.packet.payload.begin(), again.packet.payload.end(),
                           payload.begin() + Peer::kMtu));
    write(3);
    const Arrived next = peer.next();
    EXPECT_EQ(next.packet.opcode, PacketOpcode::acknowledge);
    EXPECT_EQ(next.packet.sequence, Peer::own(3));
}

TEST_F(PacketResponder, answers_a_read_with_as_many_sequences_as_packets) {
    constexpr std::size_t kBytes = 3 * Peer::kMtu - 10;
    const auto payload = pattern(kBytes, 3);
    std::copy(payload.begin(), payload.end(), end.at(512));
    const std::array kinds{PacketOpcode::response_first, PacketOpcode::response_middle,
                           PacketOpcode::response_last};
    for (int time = 0; time < 2; ++time) {  // the second time from what was kept
        peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(512, kBytes));
        std::vector<std::byte> got;
        for (std::uint32_t i = 0; i < 3; ++i) {
            const Arrived answer = peer.next(kinds[i]);
            EXPECT_EQ(answer.packet.sequence, Peer::own(i));
            got.insert(got.end(), answer.packet.payload.begin(), answer.packet.payload.end());
        }
        EXPECT_EQ(got, payload);
        std::memset(end.at(512), 0, kBytes);
    }
    peer.settle(Peer::own(3));
}

TEST_F(PacketResponder, tells_of_a_message_without_a_receive_and_of_its_receive) {
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20)));
    const Arrived waits = peer.next();
    EXPECT_EQ(waits.syndrome() & 0xe0, kNotReady);
    EXPECT_EQ(waits.packet.sequence, Peer::own(0));
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20)));
    EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
    ASSERT_EQ(end.post_receive(64, 64, 5), Errc::ok);
    const Arrived done = peer.next();
    EXPECT_EQ(done.syndrome(), kAcknowledged);
    EXPECT_EQ(done.packet.sequence, Peer::own(0));
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 1; }));
    EXPECT_EQ(peer.seen[0].bytes, 20u);
}

TEST_F(PacketResponder, joins_the_packets_of_a_message_and_its_immediate) {
    ASSERT_EQ(end.post_receive(64, 4096, 5), Errc::ok);
    const auto payload = pattern(2 * Peer::kMtu + 3, 4);
    const std::span<const std::byte> all(payload);
    peer.send(peer.make(PacketOpcode::send_first, Peer::own(0), {}, all.first(Peer::kMtu)));
    peer.send(peer.make(PacketOpcode::send_middle, Peer::own(1), {},
                        all.subspan(Peer::kMtu, Peer::kMtu)));
    peer.send(PacketOpcode::send_last_immediate, Peer::own(2),
              ImmediateHeader{mlx5::be32(77).raw()}, all.subspan(2 * Peer::kMtu));
    while (peer.next().packet.sequence != Peer::own(2) && !HasFailure()) {
    }
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 1; }));
    EXPECT_EQ(peer.seen[0].bytes, payload.size());
    EXPECT_EQ(peer.seen[0].immediate, 77u);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), end.at(64)));
}

TEST_F(PacketResponder, refuses_a_wrong_key_and_says_so_again) {
    RemoteHeader wrong = peer.remote(64, 8);
    wrong.key = mlx5::be32(wrong.key.native() ^ 0x1000);
    for (int i = 0; i < 2; ++i) {
        peer.send(PacketOpcode::write_only, Peer::own(0), wrong, pattern(8));
        const Arrived answer = peer.next();
        EXPECT_EQ(answer.syndrome(), kNoAccess);
        EXPECT_EQ(answer.packet.sequence, Peer::own(0));
    }
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::error);
}

TEST_F(PacketResponder, drops_what_is_changed_or_for_others) {
    const auto header = peer.remote(64, 8);
    const auto extended = std::as_bytes(std::span(&header, 1));
    auto changed = peer.make(PacketOpcode::write_only, Peer::own(0), extended, pattern(8));
    changed.resize(changed.size() + kChecksumBytes);
    peer.send_raw(changed);
    auto other = peer.make(PacketOpcode::write_only, Peer::own(0), extended, pattern(8));
    other[7] ^= std::byte{1};  // the queue pair
    peer.send(other);
    peer.send_raw(pattern(3));
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 2 * Peer::kMtu),
              pattern(2 * Peer::kMtu));  // longer than the path carries
    peer.settle(Peer::own(0));
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
    EXPECT_EQ(packet_counts(*end.queue_pair).dropped, 4u);
}

// Right in everything that a forger can write; the checksum is that of a packet from the peer.
TEST_F(PacketResponder, drops_and_counts_right_packets_from_another_address) {
    constexpr std::uint64_t kPackets = 20;
    const auto remote = peer.remote(64, 8);
    const auto forged = Peer::sealed(peer.make(PacketOpcode::write_only, Peer::own(0),
                                               std::as_bytes(std::span(&remote, 1)), pattern(8)),
                                     PacketChecksum(peer.place(), peer.ends_place()));
    const Forger forger({127, 0, 0, 1});
    for (std::uint64_t i = 0; i < kPackets; ++i) forger.send(peer.ends_place(), forged);
    EXPECT_EQ(peer.settle(Peer::own(0)), 0);
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
    EXPECT_EQ(packet_counts(*end.queue_pair).dropped, kPackets);
    peer.send_raw(Peer::sealed(peer.make(PacketOpcode::write_only, Peer::own(1),
                                         std::as_bytes(std::span(&remote, 1)), pattern(8)),
                               PacketChecksum(peer.place(), peer.ends_place())));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(1));
    EXPECT_NE(end.value<std::uint64_t>(64), 0u);
}

// As of a peer of before, which is gone.
TEST_F(PacketResponder, executes_nothing_with_a_stale_sequence) {
    for (const std::uint32_t far : {0x1000u, 0x7fffffu, 0x800000u, 0xfffff0u})
        peer.send(PacketOpcode::write_only, Peer::own(far), peer.remote(64, 8), pattern(8));
    peer.settle(Peer::own(0));
    EXPECT_EQ(end.value<std::uint64_t>(64), 0u);
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::ready);
}

// It has nothing to send by yet.
TEST(ReceivingQueuePair, executes_requests_and_answers) {
    End end{packet_end_options()};
    ASSERT_EQ(end.post_receive(128, 64, 5), Errc::ok);
    Peer peer(end, Peer::Meets::receiver);
    const auto payload = pattern(8);
    peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 8), payload);
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).packet.sequence, Peer::own(0));
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), end.at(64)));
    peer.send(peer.make(PacketOpcode::send_only, Peer::own(1), {}, pattern(20)));
    EXPECT_EQ(peer.next(PacketOpcode::acknowledge).syndrome(), kAcknowledged);
    ASSERT_TRUE(poll_until({&end}, {&peer.seen}, [&] { return peer.seen.size() == 1; }));
    EXPECT_EQ(peer.seen[0].bytes, 20u);
}

// What no requester of ours sends.
TEST(HostileRequester, that_breaks_the_protocol_is_lost_and_harms_nobody) {
    using Sender = void (*)(Peer&);
    const std::initializer_list<Sender> senders{
        [](Peer& peer) {  // the middle of nothing
            peer.send(peer.make(PacketOpcode::send_middle, Peer::own(0), {}, pattern(Peer::kMtu)));
        },
        [](Peer& peer) {  // shorter than it says
            peer.send(PacketOpcode::write_only, Peer::own(0), peer.remote(64, 9), pattern(8));
        },
        [](Peer& peer) {  // longer than it says
            peer.send(PacketOpcode::write_first, Peer::own(0), peer.remote(64, Peer::kMtu),
                      pattern(Peer::kMtu));
        },
        [](Peer& peer) {  // a message inside of a write
            peer.send(PacketOpcode::write_first, Peer::own(0), peer.remote(64, 2 * Peer::kMtu),
                      pattern(Peer::kMtu));
            peer.send(peer.make(PacketOpcode::send_last, Peer::own(1), {}, pattern(8)));
        },
        [](Peer& peer) {  // a read that was another one before
            peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(64, 8));
            peer.next(PacketOpcode::response_only);
            peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(64, 100000));
        },
    };
    for (const Sender send : senders) {
        End end(packet_end_options());
        Peer peer(end);
        send(peer);
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (end.queue_pair->state() != QueuePairState::error) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline);
            peer.look();
        }
        EXPECT_TRUE(end.queue_pair->peer_lost());
    }
}

// The ring has a part of the packet, which is given again as a shorter one.
TEST(HostileRequester, that_shortens_a_packet_of_which_a_part_was_taken_is_lost) {
    constexpr std::size_t kLong = 4096, kRing = 1024;
    EndOptions options = packet_end_options();
    options.device.ring_bytes = kRing;
    End end(options);
    Peer peer(end, Peer::Meets::receiver, kLong);
    const auto message = peer.make(PacketOpcode::send_only, Peer::own(0), {}, pattern(20));
    peer.send(message);
    EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
    peer.send(PacketOpcode::write_only, Peer::own(1), peer.remote(4096, kLong), pattern(kLong));
    peer.send(message);  // behind which the write was looked at
    EXPECT_EQ(peer.next().syndrome() & 0xe0, kNotReady);
    ASSERT_EQ(end.post_receive(0, 64, 5), Errc::ok);
    Arrived answer = peer.next();
    while (answer.syndrome() != kWrongSequence && !testing::Test::HasFailure())
        answer = peer.next();
    EXPECT_EQ(answer.packet.sequence, Peer::own(1));
    EXPECT_NE(end.value<std::uint64_t>(4096), 0u);
    peer.send(PacketOpcode::write_only, Peer::own(1), peer.remote(4096, 4), pattern(4));
    EXPECT_TRUE(poll_until({&end}, {&peer.seen},
                           [&] { return end.queue_pair->state() == QueuePairState::error; }));
    EXPECT_TRUE(end.queue_pair->peer_lost());
    EXPECT_TRUE(std::all_of(end.at(4096 + kRing), end.at(0) + end.memory.bytes(),
                            [](std::byte byte) { return byte == std::byte{0}; }));
}

// Packets that are well formed, and mean nothing. The requester's key covers the first half.
TEST(HostileRequester, changes_no_memory_beyond_its_key_whatever_it_sends) {
    constexpr std::size_t kHalf = 1 << 19;
    constexpr std::array<std::uint8_t, 24> kOpcodes{
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 0x16, 0x17, 0xc1};
    std::mt19937_64 random(17);
    for (int round = 0; round < 60; ++round) {
        End end(packet_end_options());
        Peer peer(end, round % 2 == 0 ? Peer::Meets::connected : Peer::Meets::receiver);
        const auto half =
            end.device->register_memory(end.at(0), kHalf, kAllAccess, {end.memory.file(), 0});
        ASSERT_EQ(end.post_receive(64, 4096, 5), Errc::ok);
        for (std::uint32_t i = 0, next = 0; i < 200; ++i, next += random() % 4 != 0) {
            const std::uint8_t opcode = kOpcodes[random() % kOpcodes.size()];
            const PacketShape shape = shape_of(opcode);
            std::array<std::byte, kMaskedAtomicBody> extended{};
            RemoteHeader header = peer.remote(random() % kHalf, random() % 2000);
            header.key = mlx5::be32(half->remote_key());
            std::memcpy(extended.data(), &header, sizeof header);
            for (std::size_t at = sizeof header; at < extended.size(); ++at)
                extended[at] = static_cast<std::byte>(random() % 3);
            const std::size_t bytes = shape.payload == PacketShape::Payload::none ? 0
                                      : shape.payload == PacketShape::Payload::full
                                          ? Peer::kMtu
                                          : random() % Peer::kMtu + 1;
            peer.send(peer.make(static_cast<PacketOpcode>(opcode), Peer::own(next),
                                std::span(extended).first(shape.extended), pattern(bytes, i)));
            peer.look();
        }
        EXPECT_TRUE(std::all_of(end.at(kHalf), end.at(0) + end.memory.bytes(),
                                [](std::byte byte) { return byte == std::byte{0}; }));
    }
}

// More than the responder's ring takes at once; and less than the socket here does.
TEST_F(PacketResponder, answers_one_read_of_many_packets) {
    constexpr std::size_t kBytes = 1 << 16;
    const auto payload = pattern(kBytes, 9);
    std::copy(payload.begin(), payload.end(), end.at(0));
    peer.send(PacketOpcode::read_request, Peer::own(0), peer.remote(0, kBytes));
    for (std::uint32_t i = 0; i < kBytes / Peer::kMtu; ++i) {
        const Arrived answer = peer.next();
        ASSERT_EQ(answer.packet.sequence, Peer::own(i));
        ASSERT_TRUE(std::equal(answer.packet.payload.begin(), answer.packet.payload.end(),
                               payload.begin() + static_cast<std::ptrdiff_t>(i * Peer::kMtu)));
    }
}

}  // namespace
}  // namespace verbatim::softnic::test
