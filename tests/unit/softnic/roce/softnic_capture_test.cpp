// Captures of the ports without packets: requests and answers as RoCE packets.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <ports/roce/packets/packet.hpp>
#include <ports/roce/packets/packet_checksum.hpp>

#include "softnic_end.hpp"

namespace verbatim::softnic {
namespace {

using test::End;
using test::EndOptions;
using test::Pair;
using test::pattern;
using enum PacketOpcode;

constexpr std::size_t kIp = 20, kUdp = 8;

// The datagrams of a capture file of ours.
std::vector<std::vector<std::byte>> datagrams_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::vector<std::vector<std::byte>> result;
    for (std::size_t at = 0; at < text.size();) {
        std::uint32_t kind = 0, bytes = 0, length = 0;
        std::memcpy(&kind, &text[at], sizeof kind);
        std::memcpy(&bytes, &text[at + 4], sizeof bytes);
        std::memcpy(&length, &text[at + 20], sizeof length);
        const auto* const data = reinterpret_cast<const std::byte*>(&text[at + 28]);
        if (kind == 6) result.emplace_back(data + kIp + kUdp, data + length);
        at += bytes;
    }
    return result;
}

class Captures : public testing::TestWithParam<PortKind> {
  protected:
    ~Captures() override { unlink(path_.c_str()); }

    EndOptions captured() const {
        EndOptions options;
        options.device.port = GetParam();
        options.device.packets.capture = path_;
        return options;
    }
    EndOptions plain() const {
        EndOptions options;
        options.device.port = GetParam();
        return options;
    }
    // Of all packets, in order. They stay valid.
    const std::vector<WirePacket>& packets() {
        datagrams_ = datagrams_of(path_);
        packets_.clear();
        for (const auto& datagram : datagrams_)
            EXPECT_TRUE(parse_packet(datagram, kMaxPacketPayload, packets_.emplace_back()));
        return packets_;
    }
    std::vector<PacketOpcode> opcodes() {
        std::vector<PacketOpcode> result;
        for (const WirePacket& packet : packets()) result.push_back(packet.opcode);
        return result;
    }

    const std::string path_ = testing::TempDir() + "capture." + std::to_string(getpid());
    std::vector<std::vector<std::byte>> datagrams_;
    std::vector<WirePacket> packets_;
};

std::vector<std::byte> payload_of(std::span<const WirePacket> packets) {
    std::vector<std::byte> all;
    for (const WirePacket& packet : packets)
        all.insert(all.end(), packet.payload.begin(), packet.payload.end());
    return all;
}

TEST_P(Captures, have_a_long_write_in_packets_of_the_path_mtu_and_its_acknowledgement) {
    Pair pair(captured(), plain());
    const auto bytes = pattern(10000);
    std::ranges::copy(bytes, pair.a.at(0));
    mlx5::WorkRequest write = pair.a.request(mlx5::Opcode::write, 64);
    const mlx5::Element from = pair.a.element(0, bytes.size());
    write.elements = {&from, 1};
    ASSERT_EQ(pair.a.send->post(write), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 0));
    const auto& all = packets();
    ASSERT_EQ(opcodes(), (std::vector{write_first, write_middle, write_last, acknowledge}));
    EXPECT_EQ(payload_of(std::span(all).first(3)), bytes);
    const auto remote = all[0].read<RemoteHeader>();
    EXPECT_EQ(remote.address.native(), pair.b.peer_address_of(64));
    EXPECT_EQ(remote.key.native(), pair.a.peer.key);
    EXPECT_EQ(remote.bytes.native(), bytes.size());
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_EQ(all[i].sequence, i);
    EXPECT_EQ(all[3].sequence, 2u);
    EXPECT_TRUE(all[2].asks);
    EXPECT_EQ(all[0].queue_pair, pair.b.queue_pair->view().number);
    EXPECT_EQ(all[3].queue_pair, pair.a.queue_pair->view().number);
}

TEST_P(Captures, have_a_read_and_its_response) {
    Pair pair(captured(), plain());
    const auto bytes = pattern(5000);
    std::ranges::copy(bytes, pair.b.at(0));
    mlx5::WorkRequest read = pair.a.request(mlx5::Opcode::read);
    const mlx5::Element into = pair.a.element(0, bytes.size());
    read.elements = {&into, 1};
    ASSERT_EQ(pair.a.send->post(read), Errc::ok);
    ASSERT_EQ(pair.a.post_write(pattern(8), 8192, 1), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 0));
    auto found = opcodes();
    // The write may have left before the response came.
    std::ranges::sort(found);
    ASSERT_EQ(found,
              (std::vector{write_only, read_request, response_first, response_last, acknowledge}));
    std::vector<WirePacket> response;
    for (const WirePacket& packet : packets_) {
        if (packet.opcode == response_first || packet.opcode == response_last)
            response.push_back(packet);
        EXPECT_EQ(packet.sequence == 2,
                  packet.opcode == write_only || packet.opcode == acknowledge);
    }
    EXPECT_EQ(payload_of(response), bytes);
    EXPECT_EQ(response[1].sequence, 1u);
}

TEST_P(Captures, have_messages_and_atomic_operations) {
    Pair pair(captured(), plain());
    ASSERT_EQ(pair.b.post_receive(0, 64), Errc::ok);
    std::ranges::copy(pattern(20), pair.a.at(0));
    const mlx5::Element message = pair.a.element(0, 20);
    ASSERT_EQ(pair.a.post_send({&message, 1}), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    const std::uint64_t before = 41;
    std::memcpy(pair.b.at(128), &before, sizeof before);
    mlx5::WorkRequest add = pair.a.request(mlx5::Opcode::fetch_add, 128);
    const mlx5::Element into = pair.a.element(64, 8);
    add.elements = {&into, 1};
    add.swap_or_add = 1;
    ASSERT_EQ(pair.a.send->post(add), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 1));
    ASSERT_EQ(opcodes(),
              (std::vector{send_only, acknowledge, PacketOpcode::fetch_add, atomic_acknowledge}));
    EXPECT_EQ(payload_of(std::span(packets_).first(1)), pattern(20));
    EXPECT_EQ(packets_[2].read<AtomicHeader>().swap_or_add.native(), 1u);
    EXPECT_EQ(packets_[3].read<AtomicAnswerHeader>().before.native(), before);
    EXPECT_EQ(pair.a.value<std::uint64_t>(64), before);
    EXPECT_EQ(pair.b.value<std::uint64_t>(128), before + 1);
}

TEST_P(Captures, are_of_each_process_what_it_has_asked_for) {
    Pair pair(captured(), captured());
    ASSERT_EQ(pair.a.post_write(pattern(8), 64), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 0));
    ASSERT_EQ(pair.b.post_write(pattern(8), 64), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(opcodes(), (std::vector{write_only, acknowledge, write_only, acknowledge}));
    EXPECT_EQ(packets_[0].queue_pair, pair.b.queue_pair->view().number);
    EXPECT_EQ(packets_[2].queue_pair, pair.a.queue_pair->view().number);
}

INSTANTIATE_TEST_SUITE_P(Of, Captures, testing::Values(PortKind::shm, PortKind::tcp),
                         [](const auto& of) { return of.param == PortKind::shm ? "shm" : "tcp"; });

// By tcp the peer's refusal comes later, and is not captured.
TEST(Capture, has_the_refusal_of_a_wrong_key) {
    const std::string path = testing::TempDir() + "capture.refused." + std::to_string(getpid());
    EndOptions options;
    options.device.port = PortKind::shm;
    options.device.packets.capture = path;
    {
        Pair pair(options, EndOptions{});
        pair.a.peer.key ^= 0x5500;
        ASSERT_EQ(pair.a.post_write(pattern(8), 64), Errc::ok);
        ASSERT_TRUE(pair.poll_for(1, 0));
        EXPECT_EQ(pair.seen_a[0].status, Errc::remote_access);
    }
    const auto datagrams = datagrams_of(path);
    unlink(path.c_str());
    ASSERT_EQ(datagrams.size(), 2u);
    WirePacket refusal;
    ASSERT_TRUE(parse_packet(datagrams[1], kMaxPacketPayload, refusal));
    EXPECT_EQ(refusal.opcode, acknowledge);
    EXPECT_EQ(refusal.read<AnswerHeader>().word.native() >> 24, kNoAccess);
}

}  // namespace
}  // namespace verbatim::softnic
