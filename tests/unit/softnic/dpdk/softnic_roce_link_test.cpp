// The RoCE endpoint of an Ethernet link: packets of devices that are no software NIC.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <mutex>

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
    // The length of the next packet; 0: there is none. The link's own thread may have it at hand.
    std::size_t next(ForeignPackets& packets) {
        std::array<std::byte, 4096> into;
        std::size_t length = 0;
        for (bool over = false; packets.receive(into, into.size(), {&length, 1}) == 0;) {
            if (over) return 0;
            over = all_taken();
        }
        return length;
    }
    bool all_taken() {
        const std::lock_guard lock(in->mutex);
        return in->frames.empty() && in->held == 0;
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
    EXPECT_EQ(endpoint->dropped(), 2u);
    EXPECT_EQ(link->strangers(), 1u);  // of no queue pair
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

// A program may open a device twice.
TEST_F(RoceLinks, of_several_devices_of_a_process_get_their_own_queue_pairs_packets) {
    const auto one = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets first(one, kNumber, peer);
    {
        const auto other = std::make_shared<RoceLink>(link, own.address);
        ForeignPackets second(other, kNumber + 1, peer);
        arrive(frame_to(own, peer, 7, kNumber + 1));
        EXPECT_EQ(next(second), 24u);
    }
    arrive(frame_to(own, peer, 7, kNumber + 1));
    EXPECT_EQ(next(first), 0u);
    arrive(frame_to(own, peer, 7));
    EXPECT_EQ(next(first), 24u);
}

TEST_F(RoceLinks, have_the_links_own_address) {
    try {
        const RoceLink elsewhere(link, peer.address);
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("10.0.0.2"), std::string::npos) << error.what();
    }
}

// The child's look must not take what is the parent's.
TEST_F(RoceLinks, leave_the_device_to_the_parent_of_a_forked_child) {
    const auto endpoint = std::make_shared<RoceLink>(link, own.address);
    ForeignPackets packets(endpoint, kNumber, peer);
    const std::unique_lock lock(in->mutex);  // the link's own thread waits
    in->frames.push_back(frame_to(own, peer, 7));
    const pid_t child = fork();
    if (child == 0) {
        endpoint->drain(nullptr);  // a look would wait for ever
        _exit(link->poll() ? 1 : 0);
    }
    int status = -1;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (waitpid(child, &status, WNOHANG) == 0)
        if (std::chrono::steady_clock::now() > deadline) kill(child, SIGKILL);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(RoceLinks, have_no_way_to_addresses_of_the_other_version) {
    RoceLink endpoint(link, own.address);
    EXPECT_EQ(endpoint.sender_to({ip("2001:db8::1"), kRocePort}), nullptr);
}

}  // namespace
}  // namespace verbatim::softnic::test
