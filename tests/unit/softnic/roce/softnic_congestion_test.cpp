// Congestion of the udp port: marks in IP headers, notices (CNP), and the window. The peer is
// played packet by packet.
#include <gtest/gtest.h>

#include <string>

#include <verbatim/driver/error.hpp>

#include "ports/roce/back_end/packet_socket.hpp"
#include "ports/roce/back_end/udp_socket.hpp"
#include "ports/roce/congestion_notices.hpp"
#include "ports/roce/congestion_window.hpp"
#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using Peer = PacketPeer;

constexpr int kMayBeMarked = 2, kMarked = 3;  // ECT(0), CE

TEST(CongestionWindow, grows_by_a_packet_for_each_window_that_is_acknowledged) {
    CongestionWindow window;
    EXPECT_EQ(window.packets(), 32u);
    for (int i = 0; i < 31; ++i) window.grow(1);
    EXPECT_EQ(window.packets(), 32u);
    window.grow(1);
    EXPECT_EQ(window.packets(), 33u);
    for (int i = 0; i < 1000; ++i) window.grow(64);
    EXPECT_EQ(window.packets(), 64u);
}

TEST(CongestionWindow, halves_at_each_loss_and_keeps_two_packets) {
    CongestionWindow window;
    for (const std::uint32_t left : {16u, 8u, 4u, 2u, 2u}) {
        window.lose(100);
        EXPECT_EQ(window.packets(), left);
    }
}

TEST(CongestionWindow, halves_once_a_round_trip_at_notices) {
    CongestionWindow window;
    window.take_notice(0, 20);
    EXPECT_EQ(window.packets(), 16u);
    window.take_notice(0, 20);
    window.take_notice(20, 30);  // the last packet that was under way when it halved
    EXPECT_EQ(window.packets(), 16u);
    window.take_notice(21, 30);
    EXPECT_EQ(window.packets(), 8u);
    window.lose(40);
    window.take_notice(40, 50);  // of the same congestion
    EXPECT_EQ(window.packets(), 4u);
    window.take_notice(41, 50);
    EXPECT_EQ(window.packets(), 2u);
}

TEST(CongestionNotices, go_out_at_most_once_in_an_interval) {
    CongestionNotices notices;
    FlowTime now{std::chrono::seconds(1)};
    EXPECT_FALSE(notices.take(now));
    notices.note_mark();
    EXPECT_TRUE(notices.take(now));
    EXPECT_FALSE(notices.take(now));
    notices.note_mark();
    EXPECT_FALSE(notices.take(now += CongestionNotices::kInterval / 2));
    EXPECT_FALSE(notices.take(now += CongestionNotices::kInterval));  // that mark was told already
    notices.note_mark();
    EXPECT_TRUE(notices.take(now));
}

// The parameter: IPv4.
class MarkedDatagrams : public testing::TestWithParam<bool> {};

TEST_P(MarkedDatagrams, are_told_from_others) {
    StreamPlace here{loopback_address(), 0}, there = here;
    if (!GetParam())
        here.address = there.address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    Descriptor sender, receiver;
    try {
        sender = open_packet_socket(there);
        receiver = open_packet_socket(here);
    } catch (const Error& error) {
        GTEST_SKIP() << error.what();
    }
    SocketName to = name_of(here);
    const int level = GetParam() ? IPPROTO_IP : IPPROTO_IPV6;
    for (const int value : {kMayBeMarked, kMarked, 0, kMarked}) {
        const int option = GetParam() ? IP_TOS : IPV6_TCLASS;
        ASSERT_EQ(setsockopt(sender.get(), level, option, &value, sizeof value), 0);
        ASSERT_EQ(sendto(sender.get(), "1234", 4, 0, to.get(), to.bytes), 4);
    }
    UdpSocket socket(std::move(receiver), there);
    std::array<std::byte, 4 * 64> into{};
    std::array<std::size_t, 4> lengths{};
    ASSERT_EQ(socket.receive(into, 64, lengths), lengths.size());
    EXPECT_EQ(socket.marked(), 0b1010u);
    EXPECT_EQ(socket.receive(into, 64, lengths), 0u);
    EXPECT_EQ(socket.marked(), 0u);
}

std::string family_of(const testing::TestParamInfo<bool>& mapped) {
    return mapped.param ? "of_ipv4" : "of_ipv6";
}
INSTANTIATE_TEST_SUITE_P(Families, MarkedDatagrams, testing::Bool(), family_of);

class PacketCongestion : public testing::Test {
  protected:
    End end{packet_end_options()};
    Peer peer{end};

    void write(std::uint32_t nth) const {
        peer.send(PacketOpcode::write_only, Peer::own(nth), peer.remote(64, 8), pattern(8));
    }
    void post_write(std::size_t bytes) {
        const mlx5::Element element = end.element(0, bytes);
        mlx5::WorkRequest request = end.request(mlx5::Opcode::write, 0);
        request.remote_address = 0x10000;
        request.remote_key = 7;
        request.elements = std::span(&element, 1);
        ASSERT_EQ(end.send->post(request), Errc::ok);
    }
    void notice() const { peer.send(PacketOpcode::congestion_notice, 0, NoticeHeader{}); }
    // Packets from the nth one on, until the timer sends the first of them again.
    std::uint32_t burst_from(std::uint32_t nth) {
        for (std::uint32_t count = 0; !HasFailure();) {
            const std::uint32_t sequence = peer.next().packet.sequence;
            const std::uint32_t found = (sequence - peer.ends(0)) & kSequenceMask;
            if (found < nth) continue;  // the timer has sent it again before
            if (found != nth + count) return count;
            ++count;
        }
        return 0;
    }
};

TEST_F(PacketCongestion, packets_say_that_they_may_be_marked) {
    write(0);
    const Arrived answer = peer.next();
    EXPECT_EQ(answer.traffic_class, kMayBeMarked);
    EXPECT_EQ(answer.packet.opcode, PacketOpcode::acknowledge);
}

TEST_F(PacketCongestion, a_marked_packet_is_answered_by_a_notice) {
    peer.set_traffic_class(kMarked);
    write(0);
    const Arrived answer = peer.next(PacketOpcode::congestion_notice);
    BaseHeader base;
    std::memcpy(&base, answer.bytes.data(), sizeof base);
    EXPECT_NE(base.queue_pair.native() & kBackwardCongestion, 0u);
    EXPECT_EQ(base.sequence.native(), 0u);
    EXPECT_EQ(answer.bytes.size(), sizeof base + sizeof(NoticeHeader) + kChecksumBytes);
}

// The acknowledgement of a later packet is behind whatever the former ones caused.
TEST_F(PacketCongestion, a_mark_of_an_invalid_packet_or_of_a_notice_is_not_answered) {
    const auto header = peer.remote(64, 8);
    auto changed = peer.make(PacketOpcode::write_only, Peer::own(0),
                             std::as_bytes(std::span(&header, 1)), pattern(8));
    changed.resize(changed.size() + kChecksumBytes);
    peer.set_traffic_class(kMarked);
    peer.send_raw(changed);
    notice();
    peer.set_traffic_class(kMayBeMarked);
    write(0);
    EXPECT_EQ(peer.next().packet.opcode, PacketOpcode::acknowledge);
    write(1);
    EXPECT_EQ(peer.next().packet.opcode, PacketOpcode::acknowledge);
    EXPECT_EQ(packet_counts(*end.queue_pair).dropped, 1u);
}

TEST_F(PacketCongestion, a_notice_halves_the_window) {
    constexpr std::uint32_t kFirst = CongestionWindow::kFirst;
    post_write(200 * Peer::kMtu);
    for (std::uint32_t i = 0; i < kFirst; ++i) ASSERT_EQ(peer.next().packet.sequence, peer.ends(i));
    notice();
    peer.answer(peer.ends(kFirst - 1), kAcknowledged);
    // Half of it, and one for the window that was acknowledged; less where the timer has ended.
    EXPECT_LE(burst_from(kFirst), kFirst / 2 + 1);
}

}  // namespace
}  // namespace verbatim::softnic::test
