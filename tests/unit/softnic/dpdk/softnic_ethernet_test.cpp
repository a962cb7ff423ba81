// The dpdk port without DPDK: frames, ARP, and links over devices in memory.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include <verbatim/driver/error.hpp>

#include "fake_ethernet.hpp"
#include "ports/dpdk/ethernet_library.hpp"
#include "ports/roce/back_end/link_back_end.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr MacAddress kMacA{2, 0, 0, 0, 0, 0xa}, kMacB{2, 0, 0, 0, 0, 0xb};
constexpr std::uint32_t kNumber = 0x1234;

// A packet to that queue pair: its base header, and zeros.
std::vector<std::byte> packet_to(std::uint32_t queue_pair, std::size_t bytes = 16) {
    std::vector<std::byte> packet(bytes);
    for (int i = 0; i < 3; ++i)
        packet[static_cast<std::size_t>(5 + i)] =
            static_cast<std::byte>(queue_pair >> (16 - 8 * i));
    return packet;
}

Frame frame_of(const StreamPlace& from, const StreamPlace& to, std::span<std::byte> packet) {
    std::array<std::byte, DatagramHeaders::kMost> headers;
    const std::size_t used = DatagramHeaders(kMacA, from, to).write(packet.size(), headers);
    Frame frame(headers.begin(), headers.begin() + static_cast<std::ptrdiff_t>(used));
    frame.insert(frame.end(), packet.begin(), packet.end());
    return frame;
}

StreamPlace place_of(const char* address) { return {parse_ip(address, "test"), 4791}; }

// Two links, and their cables.
class EthernetPair {
  public:
    EthernetPair(const char* of_a, const char* of_b)
        : a(std::make_unique<EthernetLink>(std::make_unique<FakeEthernet>(kMacA, to_a, to_b),
                                           DpdkOptions{.address = of_a})),
          b(std::make_unique<EthernetLink>(std::make_unique<FakeEthernet>(kMacB, to_b, to_a),
                                           DpdkOptions{.address = of_b})) {}

    StreamPlace b_place() const { return {b->address(), 4791}; }

    std::shared_ptr<Cable> to_a = std::make_shared<Cable>(), to_b = std::make_shared<Cable>();
    std::shared_ptr<EthernetLink> a, b;
};

void send(LinkBackEnd& end, std::span<std::byte> packet) {
    const iovec piece{packet.data(), packet.size()};
    const PacketPieces pieces(&piece, 1);
    end.send({&pieces, 1});
}

// The length of the next packet; 0: none came in time, or another's.
std::size_t next_length(LinkBackEnd& end) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::vector<std::byte> into(4096);
    std::size_t length = 0;
    while (std::chrono::steady_clock::now() < deadline)
        if (end.receive(into, into.size(), {&length, 1}) != 0) return length;
    return 0;
}

TEST(EthernetFrames, carry_a_datagram_that_is_found_again) {
    for (const auto& [from, to] :
         {std::pair("10.1.2.3", "10.1.2.4"), std::pair("fe80::1", "fe80::2")}) {
        auto packet = packet_to(kNumber, 20);
        Frame frame = frame_of(place_of(from), place_of(to), packet);
        FrameDatagram found;
        ASSERT_TRUE(parse_datagram(frame, place_of(to).address, found));
        EXPECT_EQ(found.from, place_of(from));
        EXPECT_EQ(found.port, 4791);
        EXPECT_EQ(found.queue_pair, kNumber);
        EXPECT_EQ(found.bytes.size(), 20u);
        EXPECT_FALSE(parse_datagram(frame, place_of(from).address, found));
    }
}

// Each frame is memory of its own, so that sanitizers see what is read behind it.
TEST(EthernetFrames, that_are_cut_or_changed_are_no_datagrams_or_lie_inside) {
    auto packet = packet_to(kNumber, 64);
    const Frame whole = frame_of(place_of("10.1.2.3"), place_of("10.1.2.4"), packet);
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
        Frame cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes));
        FrameDatagram found;
        EXPECT_FALSE(parse_datagram(cut, place_of("10.1.2.4").address, found)) << bytes;
        NeighbourPacket asked;
        EXPECT_FALSE(parse_neighbour(cut, asked));
    }
    for (std::size_t at = 0; at < 42; ++at)
        for (const unsigned value : {0u, 1u, 0x7fu, 0xffu}) {
            Frame changed = whole;
            changed[at] = static_cast<std::byte>(value);
            FrameDatagram found;
            if (!parse_datagram(changed, place_of("10.1.2.4").address, found)) continue;
            EXPECT_GE(found.bytes.data(), changed.data());
            EXPECT_LE(found.bytes.data() + found.bytes.size(), changed.data() + changed.size());
            EXPECT_GE(found.bytes.size(), 16u);
        }
}

TEST(EthernetFrames, have_the_checksum_of_ipv4) {
    auto packet = packet_to(kNumber);
    const Frame frame = frame_of(place_of("10.1.2.3"), place_of("10.1.2.4"), packet);
    std::uint32_t sum = 0;
    for (std::size_t i = 14; i < 34; i += 2)
        sum += static_cast<std::uint32_t>(frame[i]) << 8 | static_cast<std::uint32_t>(frame[i + 1]);
    EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
}

TEST(EthernetFrames, addresses_of_the_link_lead_back_to_mac_addresses) {
    MacAddress mac{};
    EXPECT_TRUE(mac_of(link_local(kMacA), mac));
    EXPECT_EQ(mac, kMacA);
    EXPECT_EQ(link_local(kMacA), parse_ip("fe80::ff:fe00:a", "test"));
    EXPECT_FALSE(mac_of(parse_ip("2001:db8::1", "test"), mac));
    EXPECT_THROW(parse_mac("02:00:00", "test"), Error);
    EXPECT_THROW(parse_ip("10.0.0.0/8", "test"), Error);
}

void expect_found_by_asking(const char* own, const char* other) {
    EthernetPair pair(own, other);
    auto door_a = std::make_unique<LinkDoor>(pair.a, 7);
    auto door_b = std::make_unique<LinkDoor>(pair.b, kNumber);
    const StreamPlace at_a = door_a->place(), at_b = door_b->place();
    LinkBackEnd a(std::move(door_a), at_b), b(std::move(door_b), at_a);
    auto packet = packet_to(kNumber, 24);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    std::vector<std::byte> into(4096);
    std::size_t length = 0, got = 0;
    // What is sent before the answer waits.
    while (got == 0 && std::chrono::steady_clock::now() < deadline) {
        send(a, packet);
        pair.a->poll();
        got = b.receive(into, into.size(), {&length, 1});
    }
    EXPECT_EQ(length, 24u);
}

TEST(EthernetLinks, find_mac_addresses_by_asking) {
    expect_found_by_asking("10.0.0.1", "10.0.0.2");
    expect_found_by_asking("2001:db8::1", "2001:db8::2");
    expect_found_by_asking("fe80::1", "fe80::2");  // of the link, but of no MAC address
}

// A datagram that nobody sends again must not be lost for a question; nor may all wait for ever.
TEST(EthernetLinks, let_packets_wait_for_an_answer_and_lose_them_without_one) {
    EthernetPair pair("10.0.0.1", "10.0.0.2");
    LinkSender sender(*pair.a, place_of("10.0.0.1"), place_of("10.0.0.9"));
    auto packet = packet_to(kNumber);
    const iovec piece{packet.data(), packet.size()};
    const PacketPieces pieces(&piece, 1);
    EXPECT_EQ(sender.send({&pieces, 1}), 0u);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (sender.send({&pieces, 1}) == 0 && std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_EQ(sender.send({&pieces, 1}), 1u);
}

// The first question goes out with the sender, so that its first packet need not wait.
TEST(EthernetLinks, ask_for_a_peer_as_soon_as_it_is_named) {
    EthernetPair pair("10.0.0.1", "10.0.0.2");
    LinkSender sender(*pair.a, place_of("10.0.0.1"), place_of("10.0.0.2"));
    MacAddress mac{};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!pair.a->neighbour(place_of("10.0.0.2").address)->find(mac) &&
           std::chrono::steady_clock::now() < deadline) {
    }
    EXPECT_EQ(mac, kMacB);
}

TEST(Neighbours, are_asked_for_often_at_first_and_then_seldom) {
    using namespace std::chrono_literals;
    const Neighbour neighbour(place_of("10.0.0.9").address);
    const auto start = Neighbour::Clock::now();
    const auto asked = [&](auto from, auto until) {
        int count = 0;
        for (auto time = from; time < until; time += 1ms) count += neighbour.is_due(start + time);
        return count;
    };
    EXPECT_EQ(asked(0ms, 1ms), 1);  // by the flow that names it
    EXPECT_TRUE(neighbour.may_come());
    EXPECT_EQ(asked(1000ms, 1195ms), 39);  // by its first packet, a while later
    EXPECT_FALSE(neighbour.may_come());
    EXPECT_EQ(asked(1195ms, 11195ms), 10);
    // One that was not asked for meanwhile may have come.
    EXPECT_EQ(asked(20000ms, 20001ms), 1);
    EXPECT_TRUE(neighbour.may_come());
}

TEST(EthernetLinks, refuse_peers_of_the_other_version_of_ip) {
    EthernetPair pair("10.0.0.1", "10.0.0.2");
    EXPECT_THROW(LinkSender(*pair.a, place_of("10.0.0.1"), place_of("2001:db8::1")), Error);
}

TEST(EthernetLinks, send_no_packet_that_is_longer_than_a_frame) {
    EthernetPair pair("", "");
    LinkBackEnd a(std::make_unique<LinkDoor>(pair.a, 7), pair.b_place());
    LinkDoor door(pair.b, kNumber);
    auto longest = packet_to(kNumber, 1500 - 48), longer = packet_to(kNumber, 1500 - 47);
    const iovec pieces[]{{longer.data(), longer.size()}, {longest.data(), longest.size()}};
    const PacketPieces packets[]{{std::span(&pieces[0], 1)}, {std::span(&pieces[1], 1)}};
    EXPECT_EQ(a.send(packets), 2u);
    LinkInbox::Item item;
    while (!door.inbox().pop(item)) pair.b->poll();
    EXPECT_EQ(item.datagram.bytes.size(), longest.size());
    pair.b->device().release({&item.owner, 1});
    pair.b->poll();
    EXPECT_FALSE(door.inbox().pop(item));
}

TEST(EthernetLinks, that_follow_from_mac_addresses_need_no_question) {
    EthernetPair pair("", "");
    auto door_a = std::make_unique<LinkDoor>(pair.a, 7);
    auto door_b = std::make_unique<LinkDoor>(pair.b, kNumber);
    const StreamPlace of_a = door_a->place(), of_b = door_b->place();
    LinkBackEnd a(std::move(door_a), of_b), b(std::move(door_b), of_a);
    auto packet = packet_to(kNumber, 32);
    send(a, packet);
    EXPECT_EQ(next_length(b), 32u);
}

TEST(EthernetLinks, wake_the_flow_whose_datagram_another_thread_found) {
    EthernetPair pair("", "");
    LinkDoor door(pair.b, kNumber);
    LinkBackEnd a(std::make_unique<LinkDoor>(pair.a, 7), door.place());
    pollfd entry{door.inbox().arm(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
    auto packet = packet_to(kNumber);
    send(a, packet);
    EXPECT_EQ(::poll(&entry, 1, 10000), 1);  // the link's own thread has found it
    // It stays readable for those who are slow, until it is armed again.
    LinkInbox::Item item;
    ASSERT_TRUE(door.inbox().pop(item));
    pair.b->device().release({&item.owner, 1});
    EXPECT_EQ(::poll(&entry, 1, 0), 1);
    door.inbox().arm();
    EXPECT_EQ(::poll(&entry, 1, 0), 0);
}

TEST(EthernetLinks, keep_no_more_than_an_inbox_of_a_flow_that_nobody_drives) {
    EthernetPair pair("", "");
    {
        LinkDoor door(pair.b, kNumber);
        LinkBackEnd a(std::make_unique<LinkDoor>(pair.a, 7), door.place());
        auto packet = packet_to(kNumber);
        for (std::size_t i = 0; i < 3 * LinkInbox::kItems; ++i) send(a, packet);
        const auto empty = [&] {
            const std::lock_guard lock(pair.to_b->mutex);
            return pair.to_b->frames.empty();
        };
        while (!empty()) pair.b->poll();
        while (pair.b->strangers() < 2 * LinkInbox::kItems) pair.b->poll();
        const std::lock_guard lock(pair.to_b->mutex);
        EXPECT_EQ(pair.to_b->held, LinkInbox::kItems);
    }
    EXPECT_EQ(pair.to_b->held, 0u);
}

TEST(EthernetLinks, tell_queue_pairs_of_one_number_apart_by_their_ports) {
    EthernetPair pair("", "");
    const LinkDoor one(pair.a, kNumber);
    const LinkDoor other(pair.a, kNumber);
    EXPECT_EQ(one.place().port, 4791);
    EXPECT_EQ(other.place().port, 4792);
}

TEST(EthernetLinks, drop_what_comes_from_another_address) {
    EthernetPair pair("", "");
    auto door = std::make_unique<LinkDoor>(pair.b, kNumber);
    const StreamPlace of_b = door->place();
    LinkBackEnd b(std::move(door), place_of("fe80::ff:fe00:77"));
    LinkBackEnd a(std::make_unique<LinkDoor>(pair.a, 7), of_b);
    auto packet = packet_to(kNumber);
    send(a, packet);
    EXPECT_EQ(next_length(b), 0u);
    EXPECT_EQ(b.foreign(), 1u);
}

TEST(EthernetLibrary, that_is_missing_is_named_with_a_remedy) {
    const char* const before = std::getenv("VERBATIM_DPDK_LIBRARY");
    const std::string kept = before != nullptr ? before : "";
    setenv("VERBATIM_DPDK_LIBRARY", "/nowhere/libverbatim-dpdk.so", 1);
    std::string said;
    try {
        open_ethernet_device({.device = "net_null0"});
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::device_error);
        said = error.what();
    }
    EXPECT_NE(said.find("/nowhere/libverbatim-dpdk.so"), std::string::npos) << said;
    EXPECT_NE(said.find("libdpdk-dev"), std::string::npos) << said;
    if (before != nullptr) setenv("VERBATIM_DPDK_LIBRARY", kept.c_str(), 1);
}

}  // namespace
}  // namespace verbatim::softnic::test
