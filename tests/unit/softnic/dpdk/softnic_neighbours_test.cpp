// Questions for MAC addresses and their answers, as ARP and as neighbour discovery.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ports/dpdk/neighbour_packets.hpp"

namespace verbatim::softnic::test {
namespace {

using Kind = NeighbourPacket::Kind;
using Bytes = std::vector<std::byte>;

constexpr MacAddress kAsker{2, 0, 0, 0, 0, 0xa}, kAsked{2, 0, 0, 0, 0, 0xb};
constexpr std::size_t kIp = 14, kMessage = 54, kOption = 78;

IpAddress ip(const char* text) { return parse_ip(text, "test"); }

Bytes bytes_of(const NeighbourPacket& packet) {
    const NeighbourFrame frame = neighbour_frame(packet);
    return {frame.view().begin(), frame.view().end()};
}

Bytes question(const char* from, const char* about) {
    return bytes_of({Kind::question, kAsker, {}, ip(from), ip(about)});
}

Bytes from_hex(const std::string& text) {
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

bool is_neighbour(const Bytes& frame) {
    NeighbourPacket unused;
    return parse_neighbour(frame, unused);
}

// The checksum that makes the message whole again after a change.
void seal(Bytes& frame) {
    frame[kMessage + 2] = frame[kMessage + 3] = std::byte{0};
    std::uint32_t sum = 58 + static_cast<std::uint32_t>(frame.size() - kMessage);
    for (std::size_t i = kIp + 8; i + 1 < frame.size(); i += 2)
        sum += std::to_integer<std::uint32_t>(frame[i]) << 8 |
               std::to_integer<std::uint32_t>(frame[i + 1]);
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    frame[kMessage + 2] = static_cast<std::byte>(~sum >> 8);
    frame[kMessage + 3] = static_cast<std::byte>(~sum);
}

TEST(NeighbourPackets, come_back_as_they_were_sent) {
    for (const auto& [one, other] :
         {std::pair("10.0.0.1", "10.0.0.2"), std::pair("2001:db8::1", "fe80::2")}) {
        NeighbourPacket found;
        ASSERT_TRUE(parse_neighbour(question(one, other), found));
        EXPECT_EQ(found.kind, Kind::question);
        EXPECT_EQ(found.sender_mac, kAsker);
        EXPECT_EQ(found.sender, ip(one));
        EXPECT_EQ(found.target, ip(other));
        ASSERT_TRUE(
            parse_neighbour(bytes_of({Kind::answer, kAsked, kAsker, ip(other), ip(one)}), found));
        EXPECT_EQ(found.kind, Kind::answer);
        EXPECT_EQ(found.sender_mac, kAsked);
        EXPECT_EQ(found.sender, ip(other));
        EXPECT_EQ(found.target, ip(one));
    }
}

// By the formats of RFC 4861, sections 4.3 and 4.4, and RFC 2464, section 7.
TEST(NeighbourPackets, of_ipv6_are_the_bytes_of_the_standard) {
    EXPECT_EQ(question("2001:db8::1", "2001:db8::1:2"), from_hex("3333ff010002"
                                                                 "02000000000a"
                                                                 "86dd"
                                                                 "60000000"
                                                                 "0020"
                                                                 "3a"
                                                                 "ff"
                                                                 "20010db8000000000000000000000001"
                                                                 "ff0200000000000000000001ff010002"
                                                                 "87001c1c"
                                                                 "00000000"
                                                                 "20010db8000000000000000000010002"
                                                                 "010102000000000a"));
    const Bytes answer =
        bytes_of({Kind::answer, kAsked, kAsker, ip("2001:db8::1:2"), ip("2001:db8::1")});
    EXPECT_EQ(Bytes(answer.begin(), answer.begin() + 6), from_hex("02000000000a"));
    EXPECT_EQ(Bytes(answer.begin() + kMessage, answer.begin() + kMessage + 2), from_hex("8800"));
    EXPECT_EQ(answer[kMessage + 4], std::byte{0x60});  // solicited, override
    EXPECT_EQ(Bytes(answer.begin() + kOption, answer.end()), from_hex("020102000000000b"));
}

// One that has no address yet asks whether somebody else has it.
TEST(NeighbourPackets, of_one_without_an_address_are_answered_to_all) {
    NeighbourPacket found;
    ASSERT_TRUE(parse_neighbour(question("::", "2001:db8::2"), found));
    EXPECT_EQ(found.sender, IpAddress{});
    const Bytes answer =
        bytes_of({Kind::answer, kAsked, found.sender_mac, found.target, found.sender});
    EXPECT_EQ(Bytes(answer.begin(), answer.begin() + 6), from_hex("333300000001"));
    EXPECT_EQ(Bytes(answer.begin() + kIp + 24, answer.begin() + kIp + 40),
              from_hex("ff020000000000000000000000000001"));
    EXPECT_EQ(answer[kMessage + 4], std::byte{0x20});  // override alone
}

TEST(NeighbourPackets, without_an_option_have_the_address_of_their_frame) {
    Bytes frame = question("fe80::1", "fe80::2");
    frame.resize(kOption);
    frame[kIp + 5] = std::byte{24};
    seal(frame);
    NeighbourPacket found;
    ASSERT_TRUE(parse_neighbour(frame, found));
    EXPECT_EQ(found.sender_mac, kAsker);
}

TEST(NeighbourPackets, that_are_cut_are_none) {
    for (const char* const from : {"10.0.0.1", "2001:db8::1"}) {
        const Bytes whole = question(from, from);
        const std::size_t least = std::string(from) == "10.0.0.1" ? 42 : whole.size();
        for (std::size_t bytes = 0; bytes < least; ++bytes)
            EXPECT_FALSE(is_neighbour(
                Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes))))
                << bytes;
    }
}

// Each with a right checksum, so that it is refused for its own sake.
TEST(NeighbourPackets, of_ipv6_against_the_rules_are_none) {
    const struct {
        const char* what;
        std::size_t at;
        unsigned value;
    } changes[]{{"a router has passed it on", kIp + 7, 254},
                {"another version", kIp, 0x40},
                {"another protocol", kIp + 6, 17},
                {"longer than its frame", kIp + 5, 40},
                {"shorter than a message", kIp + 5, 16},
                {"another message", kMessage, 134},
                {"a code", kMessage + 1, 1},
                {"asked of a group", kMessage + 8, 0xff},
                {"from a group", kIp + 8, 0xff},
                {"an option without a length", kOption + 1, 0},
                {"an option that is too long", kOption + 1, 2}};
    for (const auto& change : changes) {
        Bytes frame = question("2001:db8::1", "2001:db8::2");
        ASSERT_TRUE(is_neighbour(frame));
        frame[change.at] = static_cast<std::byte>(change.value);
        seal(frame);
        EXPECT_FALSE(is_neighbour(frame)) << change.what;
    }
    Bytes mapped = question("2001:db8::1", "2001:db8::2");
    const IpAddress ipv4 = ip("10.0.0.1");
    std::memcpy(mapped.data() + kMessage + 8, ipv4.data(), ipv4.size());
    seal(mapped);
    EXPECT_FALSE(is_neighbour(mapped)) << "asked of an address of IPv4";
    Bytes frame = question("2001:db8::1", "2001:db8::2");
    frame[kMessage + 20] ^= std::byte{1};
    EXPECT_FALSE(is_neighbour(frame)) << "a wrong checksum";
}

}  // namespace
}  // namespace verbatim::softnic::test
