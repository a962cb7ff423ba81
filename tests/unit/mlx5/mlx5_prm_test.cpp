// The second description of what lies in queues against bytes written out by hand, and its
// complaints.
#include <mlx5_prm.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace verbatim::prm {
namespace {

// Two digits are a byte; blanks are for the reader.
std::vector<std::byte> hex(std::string_view text) {
    std::vector<std::byte> bytes;
    int high = -1;
    for (const char digit : text) {
        if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) continue;
        const int value = std::isdigit(static_cast<unsigned char>(digit)) != 0
                              ? digit - '0'
                              : std::tolower(digit) - 'a' + 10;
        if (high < 0) {
            high = value;
            continue;
        }
        bytes.push_back(static_cast<std::byte>(high * 16 + value));
        high = -1;
    }
    return bytes;
}

TEST(Prm, an_rdma_write_with_immediate) {
    const SendWqe seen =
        describe_send(hex("00 1234 09  00abcd 04  00 0000 8a  01020304"
                          "0000 7f00 1122 3344  00c0ffee 00000000"
                          "80000003 aabbcc 00 00000000 00000000"
                          "00000010 00000077 0000560000002000"));
    EXPECT_TRUE(seen.complaints.empty()) << seen.complaints.front();
    EXPECT_EQ(seen.opcode, 0x09U);
    EXPECT_EQ(seen.index, 0x1234U);
    EXPECT_EQ(seen.number, 0xabcdU);
    EXPECT_EQ(seen.units, 4U);
    EXPECT_EQ(seen.fence, 4U);
    EXPECT_EQ(seen.completion, 2U);
    EXPECT_TRUE(seen.solicited);
    EXPECT_EQ(seen.immediate, 0x01020304U);
    EXPECT_EQ(seen.remote, (Remote{0x00007f0011223344, 0x00c0ffee}));
    EXPECT_EQ(seen.payload, hex("aabbcc"));
    EXPECT_EQ(seen.pieces, (std::vector<Piece>{{0x0000560000002000, 16, 0x77}}));
}

TEST(Prm, a_datagram) {
    const auto wqe =
        hex("00 0007 0a  000101 05  00 0000 08  00000000"
            "80010002 00000000 80123456 0a 00 c123"
            "00000000 0102030405 06 60 11 003abcde"
            "fe800000 00000000 01020304 05060708"
            "00000040 00000007 0000000000001000");
    const SendWqe seen = describe_send(wqe, Service::datagram);
    EXPECT_TRUE(seen.complaints.empty()) << seen.complaints.front();
    EXPECT_EQ(seen.address_vector, (AddressVector{.queue_key = 0x80010002,
                                                  .number = 0x123456,
                                                  .extended = true,
                                                  .service_level = 10,
                                                  .destination = 0xc123,
                                                  .mac = 0x010203040506,
                                                  .traffic_class = 0x60,
                                                  .hop_limit = 0x11,
                                                  .source_gid = 3,
                                                  .flow_label = 0xabcde,
                                                  .gid_high = 0xfe80000000000000,
                                                  .gid_low = 0x0102030405060708}));
    EXPECT_EQ(seen.pieces.size(), 1U);
    EXPECT_FALSE(describe_send(wqe).address_vector) << "to a connection it is another thing";
}

TEST(Prm, complains_of_reserved_bits_and_of_what_is_cut_off) {
    const auto whole =
        hex("00 0000 10  000101 03  00 0000 08  00000000"
            "0000000000001000 00000007 00000000"
            "00000008 00000001 0000000000002000");
    EXPECT_TRUE(describe_send(whole).complaints.empty());
    // The control segment's, the remote address segment's.
    for (const auto& [at, bit] : {std::pair{7U, 0x40U}, {11U, 0x10U}, {31U, 0x01U}}) {
        auto wqe = whole;
        wqe[at] |= static_cast<std::byte>(bit);
        EXPECT_EQ(describe_send(wqe).complaints.size(), 1U) << at;
    }
    EXPECT_FALSE(describe_send(Bytes(whole).first(47)).complaints.empty());
    EXPECT_FALSE(describe_send(Bytes(whole).first(15)).complaints.empty());
    auto payload = whole;
    payload[32] = std::byte{0x80}, payload[35] = std::byte{13};
    EXPECT_FALSE(describe_send(payload).complaints.empty()) << "12 bytes follow the header";
    payload[35] = std::byte{12};
    EXPECT_TRUE(describe_send(payload).complaints.empty());
}

TEST(Prm, receives_and_records) {
    const ReceiveWqe seen = describe_receive(hex("00000003 00000000 00000000 00000000"
                                                 "00000040 00000007 0000000000001000"
                                                 "00000000 00000100 0000000000000000"
                                                 "ffffffff ffffffff ffffffffffffffff"),
                                             true);
    EXPECT_TRUE(seen.complaints.empty());
    EXPECT_EQ(seen.next_index, 3U);
    EXPECT_EQ(seen.pieces, (std::vector<Piece>{{0x1000, 64, 7}}));
    EXPECT_EQ(receive_counter(hex("0000fffe 00000000")), 0xfffeU);
    EXPECT_EQ(send_counter(hex("00000000 00001234")), 0x1234U);
    EXPECT_EQ(send_counter(hex("00000000 00011234")), std::nullopt);
    EXPECT_EQ(shared_counter(hex("00010000")), std::nullopt);
    EXPECT_EQ(consumer_index(hex("00abcdef")), 0xabcdefU);
    EXPECT_EQ(consumer_index(hex("01abcdef")), std::nullopt);
}

TEST(Prm, completions) {
    std::vector<std::byte> entry(96);  // 64 before, 32 of transport fields
    const auto rest =
        hex("00000051 01020304 00000000 00000064 0000000000000000"
            "10 00abcd 0102 00 0b");
    entry.insert(entry.end(), rest.begin(), rest.end());
    ASSERT_EQ(entry.size(), 128U);
    const Completion seen = describe_completion(entry);
    EXPECT_EQ(seen.opcode, 0U);
    EXPECT_EQ(seen.format, 2U);
    EXPECT_EQ(seen.data.data(), entry.data());
    EXPECT_TRUE(seen.solicited);
    EXPECT_TRUE(seen.owner);
    EXPECT_EQ(seen.shared_or_user, 0x51U);
    EXPECT_EQ(seen.immediate, 0x01020304U);
    EXPECT_EQ(seen.byte_count, 100U);
    EXPECT_EQ(seen.send_opcode, 0x10U);
    EXPECT_EQ(seen.number, 0xabcdU);
    EXPECT_EQ(seen.counter, 0x0102U);
    const auto error =
        hex("0000000000000000 0000000000000000 0000000000000000 0000000000000000"
            "00000000 00000000 00000000 00000000 00000000 00008813"
            "08 00abcd 0009 00 d1");
    EXPECT_EQ(describe_completion(error).opcode, 13U);
    EXPECT_EQ(describe_completion(error).syndrome, 0x13U);
    EXPECT_EQ(describe_completion(error).vendor_syndrome, 0x88U);
}

}  // namespace
}  // namespace verbatim::prm
