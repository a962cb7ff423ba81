// The RoCE endpoint of an Ethernet link: packets of devices that are no software NIC.
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>

#include <verbatim/driver/error.hpp>

#include "fake_ethernet.hpp"
#include "ports/roce/foreign/foreign_packets.hpp"
#include "ports/roce/foreign/roce_link.hpp"
#include "ports/roce/packets/packet_checksum.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr MacAddress kMac{2, 0, 0, 0, 0, 0xa}, kPeerMac{2, 0, 0, 0, 0, 0xb};
constexpr std::uint32_t kNumber = 0x1234;

IpAddress ip(const char* text) { return parse_ip(text, "test"); }

// A device's frame to the queue pair, as cards send them: any source port and identification.
Frame frame_to(const StreamPlace& own, const StreamPlace& from, std::uint16_t identification,
               std::uint32_t queue_pair = kNumber, std::uint8_t traffic_class = 0) {
    std::array<std::byte, 24> packet{};
    for (std::size_t i = 0; i < 3; ++i)
        packet[5 + i] = static_cast<std::byte>(queue_pair >> (16 - 8 * i));
    const iovec piece{packet.data(), packet.size() - kChecksumBytes};
    const std::uint32_t sum = PacketChecksum(from, own, identification).of({&piece, 1});
    std::memcpy(packet.data() + piece.iov_len, &sum, sizeof sum);
    std::array<std::byte, DatagramHeaders::kMost> headers;
    const std::size_t used = DatagramHeaders(kPeerMac, from, own).write(packet.size(), headers);
    headers[15] = static_cast<std::byte>(traffic_class);
    headers[18] = static_cast<std::byte>(identification >> 8);
    headers[19] = static_cast<std::byte>(identification);
    Frame frame(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(used));
    frame.insert(frame.end(), packet.begin(), packet.end());
    return frame;
}

class RoceLinks : public testing::Test {
  protected:
    void arrive(Frame frame) {
        const std::lock_guard lock(in->mutex);
        in->frames.push_back(std::move(frame));
    }
    std::size_t next(ForeignPackets& packets) {
        std::array<std::byte, 4096> into;
        std::size_t length = 0;
        while (packets.receive(into, into.size(), {&length, 1}) == 0) {
            const std::lock_guard lock(in->mutex);
            if (in->frames.empty()) return 0;
        }
        return length;
    }

    std::shared_ptr<Cable> in = std::make_shared<Cable>(), out = std::make_shared<Cable>();
    std::shared_ptr<EthernetLink> link = std::make_shared<EthernetLink>(
        std::make_unique<FakeEthernet>(kMac, in, out), DpdkOptions{.address = "10.0.0.1"});
    const StreamPlace own{ip("10.0.0.1"), kRocePort}, peer{ip("10.0.0.2"), kRocePort};
};

TEST_F(RoceLinks, give_packets_of_any_identification_and_port_to_their_queue_pair) {
    const auto endpoint = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets packets(endpoint, kNumber, peer);
    for (const std::uint16_t identification :
         {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{0xbeef}}) {
        arrive(frame_to(own, {peer.address, 0xc123}, identification));
        EXPECT_EQ(next(packets), 24u) << identification;
    }
    EXPECT_EQ(packets.foreign(), 0u);
}

TEST_F(RoceLinks, tell_of_marks_of_congestion) {
    const auto endpoint = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets packets(endpoint, kNumber, peer);
    arrive(frame_to(own, peer, 7, kNumber, 3));
    EXPECT_EQ(next(packets), 24u);
    EXPECT_EQ(packets.marked(), 1u);
    arrive(frame_to(own, peer, 7, kNumber, 2));
    EXPECT_EQ(next(packets), 24u);
    EXPECT_EQ(packets.marked(), 0u);
}

TEST_F(RoceLinks, drop_and_count_what_is_changed_or_for_nobody_or_of_another_device) {
    const auto endpoint = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets packets(endpoint, kNumber, peer);
    Frame changed = frame_to(own, peer, 7);
    changed[19] ^= std::byte{1};  // the identification alone: a socket could not tell
    arrive(changed);
    arrive(frame_to(own, peer, 7, kNumber + 1));
    arrive(frame_to(own, {ip("10.0.0.3"), kRocePort}, 7));
    EXPECT_EQ(next(packets), 0u);
    while (endpoint->dropped() < 3) link->poll();
    EXPECT_EQ(endpoint->dropped(), 3u);
    const std::lock_guard lock(in->mutex);
    EXPECT_EQ(in->held, 0u);
}

TEST_F(RoceLinks, wake_a_flow_whose_packet_another_thread_found) {
    const auto endpoint = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets packets(endpoint, kNumber, peer);
    pollfd entry{packets.file(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    arrive(frame_to(own, peer, 7));
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);  // the link's own thread has found it
    EXPECT_EQ(next(packets), 24u);
}

TEST_F(RoceLinks, have_one_device_of_a_process_and_their_own_address) {
    {
        const RoceLink first(link, own.address);
        try {
            const RoceLink second(link, own.address);
            FAIL();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::device_error);
        }
    }
    const RoceLink after(link, own.address);
    try {
        const RoceLink elsewhere(link, peer.address);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("10.0.0.2"), std::string::npos) << error.what();
    }
}

TEST_F(RoceLinks, have_no_way_to_addresses_of_the_other_version) {
    RoceLink endpoint(link, own.address);
    EXPECT_EQ(endpoint.sender_to({ip("2001:db8::1"), kRocePort}), nullptr);
}

}  // namespace
}  // namespace verbatim::softnic::test
