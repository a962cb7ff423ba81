// Packets of the udp port: what is taken for one, its checksum, numbers and times.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "ports/roce/foreign/packet_inbox.hpp"
#include "ports/roce/packets/hidden_identification.hpp"
#include "ports/roce/packets/not_ready_time.hpp"
#include "ports/roce/packets/packet.hpp"
#include "ports/roce/packets/packet_checksum.hpp"
#include "ports/roce/packets/sequence.hpp"
#include "ports/tcp/read_results.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::size_t kMtu = 256;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
    std::vector<std::byte> result;
    for (const int value : values) result.push_back(static_cast<std::byte>(value));
    return result;
}

StreamPlace ipv4(std::array<std::uint8_t, 4> address, std::uint16_t port) {
    StreamPlace place{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, port};
    std::copy(address.begin(), address.end(), place.address.begin() + 12);
    return place;
}

std::vector<std::byte> packet_of(PacketOpcode opcode, std::size_t extended, std::size_t payload,
                                 std::size_t padding = 0) {
    BaseHeader base;
    base.opcode = static_cast<std::uint8_t>(opcode);
    base.flags = static_cast<std::uint8_t>(padding << 4);
    base.partition = mlx5::be16(kDefaultPartition);
    base.queue_pair = mlx5::be32(0x123456);
    base.sequence = mlx5::be32(kAsksForAcknowledgement | 0xabcdef);
    std::vector<std::byte> bytes(sizeof base + extended + payload + padding + kChecksumBytes);
    std::memcpy(bytes.data(), &base, sizeof base);
    return bytes;
}

bool parses(const std::vector<std::byte>& bytes) {
    WirePacket packet;
    return parse_packet(bytes, kMtu, packet);
}

TEST(Packets, fields_are_found_where_the_standard_has_them) {
    auto bytes = packet_of(PacketOpcode::write_only_immediate, 20, 5, 3);
    bytes[1] |= std::byte{kSolicitedPacket};
    const RemoteHeader remote{SplitWord(0x1122334455667788), mlx5::be32(7), mlx5::be32(5)};
    std::memcpy(&bytes[12], &remote, sizeof remote);
    EXPECT_EQ(bytes[12], std::byte{0x11});
    bytes[32] = std::byte{0x5a};
    WirePacket packet;
    ASSERT_TRUE(parse_packet(bytes, kMtu, packet));
    EXPECT_EQ(packet.opcode, PacketOpcode::write_only_immediate);
    EXPECT_TRUE(packet.solicited && packet.asks && packet.shape.first && packet.shape.last);
    EXPECT_EQ(packet.queue_pair, 0x123456u);
    EXPECT_EQ(packet.sequence, 0xabcdefu);
    EXPECT_EQ(packet.read<RemoteHeader>().address.native(), 0x1122334455667788u);
    ASSERT_EQ(packet.payload.size(), 5u);
    EXPECT_EQ(packet.payload[0], std::byte{0x5a});
}

TEST(Packets, lengths_must_fit_the_opcode) {
    EXPECT_TRUE(parses(packet_of(PacketOpcode::send_first, 0, kMtu)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_first, 0, kMtu - 4)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_middle, 0, kMtu + 4)));
    EXPECT_TRUE(parses(packet_of(PacketOpcode::send_only, 0, 0)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_last, 0, 0)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_only, 0, kMtu + 4)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_only, 0, 5)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::send_only, 0, 4, 1)));
    EXPECT_TRUE(parses(packet_of(PacketOpcode::read_request, 16, 0)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::read_request, 16, 4)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::read_request, 12, 0)));
    EXPECT_TRUE(parses(packet_of(PacketOpcode::compare_swap, 28, 0)));
    EXPECT_TRUE(parses(packet_of(PacketOpcode::atomic_acknowledge, 12, 0)));
    EXPECT_TRUE(parses(packet_of(PacketOpcode::masked_atomic, 56, 0)));
    EXPECT_FALSE(parses(packet_of(PacketOpcode::masked_atomic, 52, 0)));
}

TEST(Packets, of_other_protocols_are_none) {
    EXPECT_FALSE(parses({}));
    EXPECT_FALSE(parses(std::vector<std::byte>(15)));
    EXPECT_FALSE(parses(packet_of(static_cast<PacketOpcode>(0x15), 0, 0)));
    EXPECT_FALSE(parses(packet_of(static_cast<PacketOpcode>(0x64), 0, 0)));
    auto version = packet_of(PacketOpcode::send_only, 0, 8);
    version[1] |= std::byte{1};
    EXPECT_FALSE(parses(version));
    auto partition = packet_of(PacketOpcode::send_only, 0, 8);
    partition[2] = std::byte{0};
    EXPECT_FALSE(parses(partition));
}

TEST(PacketChecksum, crc_is_that_of_ieee_802_3) {
    const char text[] = "123456789";
    const auto* bytes = reinterpret_cast<const std::byte*>(text);
    EXPECT_EQ(crc32(0, bytes, 9), 0xcbf43926u);
    EXPECT_EQ(crc32(crc32(0, bytes, 2), bytes + 2, 7), 0xcbf43926u);
}

TEST(PacketChecksum, crc_by_multiplication_is_that_by_tables) {
    if (!crc32_multiplies()) GTEST_SKIP() << "this processor has no PCLMULQDQ";
    constexpr std::size_t kMostBytes = 5000, kPlaces = 16;
    std::vector<std::byte> bytes(kMostBytes + kPlaces);
    std::uint32_t random = 1;
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>((random = random * 69069 + 1) >> 24);
    for (std::size_t place = 0; place < kPlaces; ++place)
        for (std::size_t count = 0; count <= kMostBytes; ++count) {
            random = random * 69069 + 1;
            ASSERT_EQ(crc32(random, bytes.data() + place, count),
                      crc32_by_tables(random, bytes.data() + place, count))
                << count << " bytes at " << place;
        }
}

// Of ranges without a byte to the left or to the right in their pages.
TEST(PacketChecksum, crc_reads_no_byte_of_others) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const map = mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(map, MAP_FAILED);
    auto* const inner = static_cast<std::byte*>(map) + page;
    ASSERT_EQ(mprotect(inner, page, PROT_READ | PROT_WRITE), 0);
    for (std::size_t count = 0; count <= 300; ++count) {
        EXPECT_EQ(crc32(1, inner, count), crc32_by_tables(1, inner, count));
        const std::byte* const late = inner + page - count;
        EXPECT_EQ(crc32(1, late, count), crc32_by_tables(1, late, count));
    }
    munmap(map, 3 * page);
}

// A congestion notification that a ConnectX-4 Lx sent, and an unreliable send of Linux (both are
// test vectors of the Scapy project). Their IPv4 headers have identifications.
TEST(PacketChecksum, is_that_of_other_senders) {
    auto notification =
        bytes_of({0x81, 0x00, 0xff, 0xff, 0x40, 0x00, 0x01, 0x18, 0, 0, 0, 0, 0, 0,
                  0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0});
    for (const int value : {0x82, 0xfd, 0x00, 0x2a})
        notification.push_back(static_cast<std::byte>(value));
    const PacketChecksum card(ipv4({10, 0, 17, 1}, 0), ipv4({10, 0, 18, 1}, 4791), 0x718c);
    EXPECT_TRUE(card.fits(notification));
    const auto send =
        bytes_of({0x24, 0x60, 0xff, 0xff, 0,    0,    0,   211,  0x00, 0xcf, 0x17, 0x10,
                  'F',  '0',  0x81, 0x8b, 0xe2, 0x89, '5', 0xd9, 0x0e, 0x9a, 0x95, 'P',
                  'T',  0x01, 0xbe, 0x88, '^',  'P',  0,   0,    0x78, 0xf3, 0x53, 0xf3});
    const PacketChecksum kernel(ipv4({192, 168, 0, 7}, 49152), ipv4({192, 168, 0, 7}, 4791), 1144);
    EXPECT_TRUE(kernel.fits(send));
}

TEST(PacketChecksum, covers_everything_but_congestion_marks) {
    const StreamPlace from{{0x20, 1, 0xd, 0xb8, 1}, 1000}, to{{0x20, 1, 0xd, 0xb8, 2}, 2000};
    for (const bool six : {false, true}) {
        const PacketChecksum checksum =
            six ? PacketChecksum(from, to)
                : PacketChecksum(ipv4({10, 0, 0, 1}, 1000), ipv4({10, 0, 0, 2}, 2000));
        auto bytes = packet_of(PacketOpcode::send_only, 0, 8);
        const iovec piece{bytes.data(), bytes.size() - kChecksumBytes};
        const std::uint32_t sum = checksum.of(std::span(&piece, 1));
        std::memcpy(bytes.data() + piece.iov_len, &sum, sizeof sum);
        EXPECT_TRUE(checksum.fits(bytes));
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            bytes[i] ^= std::byte{0x10};
            EXPECT_EQ(checksum.fits(bytes), i == 4) << i;
            bytes[i] ^= std::byte{0x10};
        }
        EXPECT_FALSE(PacketChecksum(to, from).fits(bytes));
    }
}

// By the definition, bit by bit, over a header that is written out here.
TEST(PacketChecksum, covers_ipv6_headers_as_annex_a17_says) {
    std::vector<std::byte> covered(8, std::byte{0xff});
    const auto add = [&](const std::vector<std::byte>& more) {
        covered.insert(covered.end(), more.begin(), more.end());
    };
    const StreamPlace from{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0xc001};
    const StreamPlace to{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}, 4791};
    auto bytes = packet_of(PacketOpcode::send_only, 0, 8);
    const int udp_bytes = static_cast<int>(8 + bytes.size());
    add(bytes_of({0x6f, 0xff, 0xff, 0xff, 0, udp_bytes, 17, 0xff}));
    for (const StreamPlace& place : {from, to})
        for (const std::uint8_t byte : place.address) covered.push_back(std::byte{byte});
    add(bytes_of({0xc0, 0x01, 0x12, 0xb7, 0, udp_bytes, 0xff, 0xff}));
    const std::size_t base = covered.size();
    add({bytes.begin(), bytes.end() - kChecksumBytes});
    covered[base + 4] = std::byte{0xff};
    std::uint32_t crc = ~0u;
    for (const std::byte byte : covered)
        for (int bit = 0; bit < 8; ++bit) {
            const bool one = ((crc ^ (static_cast<std::uint32_t>(byte) >> bit)) & 1) != 0;
            crc = (crc >> 1) ^ (one ? 0xedb88320u : 0);
        }
    const iovec piece{bytes.data(), bytes.size() - kChecksumBytes};
    EXPECT_EQ(PacketChecksum(from, to).of(std::span(&piece, 1)), ~crc);
}

// As a sender makes one whose IP headers have this identification.
std::vector<std::byte> identified(std::uint16_t identification, std::size_t payload) {
    auto bytes = packet_of(PacketOpcode::send_only, 0, payload);
    const PacketChecksum checksum(ipv4({10, 0, 0, 1}, 50000), ipv4({10, 0, 0, 2}, 4791),
                                  identification);
    const iovec piece{bytes.data(), bytes.size() - kChecksumBytes};
    const std::uint32_t sum = checksum.of(std::span(&piece, 1));
    std::memcpy(bytes.data() + piece.iov_len, &sum, sizeof sum);
    return bytes;
}

TEST(PacketChecksum, of_a_run_has_identifications_that_count) {
    constexpr std::size_t kPayload = 1024;
    const std::size_t bytes = identified(0, kPayload).size();
    const auto runs =
        PacketChecksum::with_runs(ipv4({10, 0, 0, 1}, 50000), ipv4({10, 0, 0, 2}, 4791), bytes);
    const PacketChecksum alone(ipv4({10, 0, 0, 1}, 50000), ipv4({10, 0, 0, 2}, 4791));
    for (std::uint16_t place = 0; place < PacketChecksum::kMostInRun; ++place) {
        const auto packet = identified(place, kPayload);
        EXPECT_TRUE(runs.fits(packet)) << place;
        EXPECT_EQ(alone.fits(packet), place == 0) << place;
        EXPECT_EQ(runs.fits(identified(place, kPayload - 4)), place == 0) << place;
        const iovec piece{const_cast<std::byte*>(packet.data()), bytes - kChecksumBytes};
        const std::uint32_t sum = runs.of(std::span(&piece, 1)) ^ runs.change_by(place);
        EXPECT_EQ(std::memcmp(&sum, packet.data() + piece.iov_len, sizeof sum), 0) << place;
    }
    EXPECT_FALSE(runs.fits(identified(PacketChecksum::kMostInRun, kPayload)));
    auto changed = identified(3, kPayload);
    for (std::size_t bit = 0; bit < 8 * changed.size(); ++bit) {
        if (bit / 8 == 4) continue;  // congestion marks
        changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_FALSE(runs.fits(changed)) << bit;
        changed[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
}

TEST(HiddenIdentification, every_one_is_found_and_taken) {
    const PacketChecksum unknown(ipv4({10, 0, 0, 1}, 50000), ipv4({10, 0, 0, 2}, 4791));
    for (const std::size_t payload : {0u, 4u, 256u})
        for (std::uint32_t identification = 0; identification < 0x10000; identification += 251)
            ASSERT_EQ(unknown.identification_of(
                          identified(static_cast<std::uint16_t>(identification), payload)),
                      identification);
    // Of three bytes behind it: the register of zlib's crc32(b"\x12\x34abc") ^ crc32(b"\0\0abc").
    const auto one = bytes_of({0x12, 0x34, 'a', 'b', 'c'}), none = bytes_of({0, 0, 'a', 'b', 'c'});
    const std::uint32_t difference =
        crc32(0, one.data(), one.size()) ^ crc32(0, none.data(), none.size());
    EXPECT_EQ(hidden_identification(difference, 3), 0x1234);
}

TEST(HiddenIdentification, changed_packets_and_ipv6_ones_are_refused) {
    const PacketChecksum unknown(ipv4({10, 0, 0, 1}, 50000), ipv4({10, 0, 0, 2}, 4791));
    // One bit, or two neighbours, are never what an identification changes.
    auto packet = identified(0x1234, 64);
    for (std::size_t bit = 0; bit < 8 * packet.size(); ++bit) {
        if (bit / 8 == 4) continue;  // congestion marks
        packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_FALSE(unknown.identification_of(packet)) << bit;
        packet[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    const StreamPlace six{{0xfd, 0, 1}, 4791};
    EXPECT_FALSE(PacketChecksum(six, six).identification_of(packet));
    EXPECT_FALSE(unknown.identification_of(std::span(packet).first(8)));
}

constexpr std::array<std::uint8_t, 16> kAnySource{};

TEST(PacketInbox, takes_packets_in_order_and_no_more_than_it_has_room_for) {
    PacketInbox inbox{kAnySource};
    const std::vector<std::byte> longest(kMaxPacketBytes), too_long(kMaxPacketBytes + 1);
    EXPECT_FALSE(inbox.put(too_long));
    EXPECT_TRUE(inbox.empty());
    for (std::size_t i = 0; i < PacketInbox::kPackets; ++i)
        ASSERT_TRUE(inbox.put(std::span(longest).first(i + 1)));
    EXPECT_FALSE(inbox.put(longest));
    std::vector<std::byte> into(kMaxPacketBytes);
    for (std::size_t i = 0; i < PacketInbox::kPackets; ++i) ASSERT_EQ(inbox.take(into), i + 1);
    EXPECT_TRUE(inbox.empty());
    EXPECT_TRUE(inbox.put(longest));
}

TEST(PacketInbox, is_readable_from_a_signal_until_it_is_looked_at) {
    PacketInbox inbox{kAnySource};
    pollfd entry{inbox.file(), POLLIN, 0};
    EXPECT_EQ(poll(&entry, 1, 0), 0);
    inbox.signal();
    inbox.signal();
    EXPECT_EQ(poll(&entry, 1, 0), 1);
    inbox.quiet();
    EXPECT_EQ(poll(&entry, 1, 0), 0);
    inbox.signal();
    EXPECT_EQ(poll(&entry, 1, 0), 1);
}

TEST(PacketInbox, of_everybody_gives_notice_once_and_tells_where_packets_came_from) {
    int notices = 0;
    PacketInbox inbox(InboxNotice{
        [](const void* count) noexcept { ++*static_cast<int*>(const_cast<void*>(count)); },
        &notices});
    EXPECT_EQ(inbox.file(), -1);
    EXPECT_TRUE(inbox.takes_from({1, 2, 3}));
    const std::vector<std::byte> packet(8, std::byte{7});
    for (std::uint16_t i = 1; i != 3; ++i) {
        ASSERT_TRUE(inbox.put(packet, {{1, 2, 3}, i, 9, {}}));
        inbox.signal();
    }
    EXPECT_EQ(notices, 1);
    inbox.quiet();
    for (std::uint16_t i = 1; i != 3; ++i) {
        ASSERT_FALSE(inbox.empty());
        EXPECT_EQ(inbox.front().size(), packet.size());
        EXPECT_EQ(inbox.origin().port, i);
        EXPECT_EQ(inbox.origin().identification, 9);
        inbox.pop();
    }
    EXPECT_TRUE(inbox.empty());
    inbox.signal();
    EXPECT_EQ(notices, 2);
}

// A responder answers no more of them again.
TEST(ReadResults, have_no_room_for_more_requests_than_the_responder_remembers) {
    ReadResults results(kQuestions);
    results.limit_requests(2);
    const std::array<std::byte, 8> bytes{};
    results.note_question(1, bytes.size(), false);
    results.note_question(2, bytes.size());
    EXPECT_EQ(results.free_questions(), kQuestions - 2);
    results.note_question(3, bytes.size());
    EXPECT_EQ(results.free_questions(), 0u);
    EXPECT_EQ(results.room(), 0u);
    EXPECT_TRUE(results.arrive(1, bytes));
    EXPECT_EQ(results.room(), 0u);
    EXPECT_TRUE(results.arrive(2, bytes));
    EXPECT_EQ(results.free_questions(), kQuestions - 1);
    EXPECT_NE(results.room(), 0u);
}

TEST(SequenceSpace, numbers_return_where_sequences_wrap) {
    const SequenceSpace space(0xfffffe);
    EXPECT_EQ(space.sequence_of(1), 0xfffffeu);
    EXPECT_EQ(space.sequence_of(3), 0u);
    for (const std::uint64_t near : {1ull, 1ull << 24, (1ull << 40) + 5})
        for (const std::int64_t off : {-100, -1, 0, 1, 100, (1 << 23) - 1}) {
            const auto number = static_cast<std::int64_t>(near) + off;
            const auto sequence = space.sequence_of(static_cast<std::uint64_t>(number));
            EXPECT_EQ(space.number_of(sequence, near), number);
        }
}

TEST(NotReadyTime, codes_stand_for_the_times_of_the_standard) {
    using namespace std::chrono_literals;
    EXPECT_EQ(not_ready_time(0), 655360us);
    EXPECT_EQ(not_ready_time(1), 10us);
    EXPECT_EQ(not_ready_time(12), 640us);
    EXPECT_EQ(not_ready_time(31), 491520us);
    EXPECT_EQ(not_ready_code(0ns), 1);
    EXPECT_EQ(not_ready_code(1s), 0);
    for (int code = 0; code < 32; ++code)
        EXPECT_EQ(not_ready_code(not_ready_time(static_cast<std::uint8_t>(code))), code);
}

}  // namespace
}  // namespace verbatim::softnic
