// The dumper's lines, word for word, and its behaviour on bytes that make no sense.
#include <verbatim/mlx5/dump.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <random>

#include <verbatim/mlx5/encode.hpp>

#include "mlx5_requests.hpp"

namespace verbatim::mlx5 {
namespace {

using namespace test;

std::vector<std::byte> bytes_of(Request asked) {
    const WqeShape shape = shape_of(asked.get());
    std::vector<std::byte> bytes(std::size_t{shape.blocks()} * kBlockBytes);
    encode(asked.get(), shape, {0x101, 7},
           UnitCursor(bytes.data(), bytes.data(), bytes.data() + bytes.size()));
    return bytes;
}
std::string dumped(Request asked) { return dump_wqe(bytes_of(std::move(asked))); }

TEST(Dump, send_wqes) {
    EXPECT_EQ(dumped(request(Opcode::nop)), "#7 nop qp 0x101 ds 1 signaled");
    EXPECT_EQ(dumped(inline_request(Opcode::write, 8)),
              "#7 write qp 0x101 ds 3 signaled, to 0x7f0011223340 key 0xc0ffee, inline 8: 00 07 0e "
              "15 1c 23 2a 31");
    Request fenced = gather_request(Opcode::send_immediate, 2);
    fenced.work.signaled = false;
    fenced.work.fence = fenced.work.solicited = true;
    EXPECT_EQ(dumped(fenced),
              "#7 send_immediate qp 0x101 ds 3 solicited fence, immediate 0xa0b0c0d, local "
              "{0x560000001000 +8 key "
              "0x100000} {0x560000011001 +24 key 0x100001}");
    EXPECT_EQ(dumped(gather_request(Opcode::read, 1)),
              "#7 read qp 0x101 ds 3 signaled, from 0x7f0011223340 key 0xc0ffee, local "
              "{0x560000001000 +8 key 0x100000}");
    EXPECT_EQ(dumped(atomic_request(Opcode::compare_swap)),
              "#7 compare_swap qp 0x101 ds 4 signaled, to 0x7f0011223340 key 0xc0ffee, swap "
              "0x99aabbccddeeff00 if "
              "0x1122334455667788, local {0x560000002000 +8 key 0x77}");
    EXPECT_EQ(dumped(atomic_request(Opcode::fetch_add)),
              "#7 fetch_add qp 0x101 ds 4 signaled, to 0x7f0011223340 key 0xc0ffee, add "
              "0x99aabbccddeeff00, local "
              "{0x560000002000 +8 key 0x77}");
    EXPECT_EQ(dumped(masked_request(Opcode::masked_compare_swap, 8)),
              "#7 masked_compare_swap qp 0x101 ds 5 signaled, to 0x7f0011223340 key 0xc0ffee, 8 "
              "bytes, swap 0x99aabbccddeeff00 under 0xff00ff00ff00ff00 if 0x1122334455667788 "
              "under 0xffffffff0000, local {0x560000002000 +8 key 0x77}");
    EXPECT_EQ(dumped(masked_request(Opcode::masked_compare_swap, 4)),
              "#7 masked_compare_swap qp 0x101 ds 4 signaled, to 0x7f0011223340 key 0xc0ffee, 4 "
              "bytes, swap 0xddeeff00 under 0xff00ff00 if 0x55667788 under 0xffff0000, local "
              "{0x560000002000 +4 key 0x77}");
    EXPECT_EQ(dumped(masked_request(Opcode::masked_fetch_add, 8)),
              "#7 masked_fetch_add qp 0x101 ds 4 signaled, to 0x7f0011223340 key 0xc0ffee, 8 "
              "bytes, add 0x99aabbccddeeff00, fields end at 0x8000000080000000, local "
              "{0x560000002000 +8 key 0x77}");
    EXPECT_EQ(dumped(masked_request(Opcode::fetch_add, 4)),
              "#7 masked_fetch_add qp 0x101 ds 4 signaled, to 0x7f0011223340 key 0xc0ffee, 4 "
              "bytes, add 0xddeeff00, fields end at 0x0, local {0x560000002000 +4 key 0x77}");
    const std::string large = dumped(inline_request(Opcode::send, 100));
    EXPECT_TRUE(large.ends_with(" d2 d9 ...")) << large;
}

TEST(Dump, datagrams) {
    DatagramSegment target;
    target.queue_key = be32(0x11);
    target.extended_number = be32(kExtendedAddress | 0x123456);
    target.rate_priority = 2 << 1;
    target.destination = be16(0xc000);
    target.mac = {1, 2, 3, 4, 5, 0xab};
    target.traffic_class = 0x60;
    target.hop_limit = 64;
    target.route = be32(3u << 20 | 0x12);
    target.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<std::byte> bytes(2 * kBlockBytes);
    UnitWriter writer(bytes.data());
    writer.put(control_word(Opcode::send, 7, 0x101, 5), flags_word(kCompletionAlways, 0));
    std::memcpy(bytes.data() + sizeof(ControlSegment), &target, sizeof target);
    const std::array payload{std::byte{0}, std::byte{7}};
    UnitWriter(bytes.data() + kBlockBytes).put_inline(payload);
    EXPECT_EQ(dump_wqe(bytes, Transport::unreliable_datagram),
              "#7 send qp 0x101 ds 5 signaled, to qp 0x123456 queue key 0x11 gid "
              "fe80:0000:0000:0000:0102:0304:0506:0708 mac 01:02:03:04:05:ab port 49152 from gid 3 "
              "flow 0x12 class 0x60 hops 64 priority 2, inline 2: 00 07");
    EXPECT_TRUE(dump_wqe(std::span(bytes).first(48), Transport::unreliable_datagram)
                    .ends_with("signaled (cut off)"));
}

TEST(Dump, shared_receive_entries) {
    std::array<std::uint64_t, 6> words{word(be32(3), be32(0)),           0,
                                       element_word({0x1000, 64, 7}),    be64(0x1000).raw(),
                                       word(be32(0), be32(kInvalidKey)), 0};
    const auto bytes = std::as_bytes(std::span(words));
    EXPECT_EQ(dump_shared_receive_entry(bytes), "receive into {0x1000 +64 key 0x7}, then #3");
    EXPECT_EQ(dump_shared_receive_entry(bytes.first(16)), "receive nothing, then #3");
    EXPECT_EQ(dump_shared_receive_entry(bytes.first(15)), "(cut off)");
    words[2] = element_word({0x1000, 1u << 31, 7});
    EXPECT_EQ(dump_shared_receive_entry(bytes.first(32)),
              "receive into {0x1000 +2147483648 key 0x7}, then #3");
}

TEST(Dump, receive_entries) {
    std::array<std::uint64_t, 4> words{element_word({0x1000, 64, 7}), be64(0x1000).raw(),
                                       word(be32(0), be32(kInvalidKey)), 0};
    EXPECT_EQ(dump_receive_entry(std::as_bytes(std::span(words))),
              "receive into {0x1000 +64 key 0x7}");
    EXPECT_EQ(dump_receive_entry(std::as_bytes(std::span(words)).subspan(16)), "receive nothing");
}

Cqe cqe(CqeOpcode opcode) {
    Cqe made;
    made.opcode_number = be32(0x08000101);
    made.wqe_counter = be16(9);
    made.byte_count = be32(64);
    made.immediate = be32(0xab);
    made.op_own = make_op_own(opcode, true);
    return made;
}

TEST(Dump, cqes) {
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::requester)), "[1] sent write qp 0x101 wqe #9, 64 bytes");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::send)), "[1] received qp 0x101 wqe #9, 64 bytes");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::send_immediate)),
              "[1] received qp 0x101 wqe #9, 64 bytes immediate 0xab");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::write_immediate)),
              "[1] written to qp 0x101 wqe #9, 64 bytes immediate 0xab");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::send_invalidate)),
              "[1] received qp 0x101 wqe #9, 64 bytes invalidates 0xab");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::invalid)), "[1] invalid");
    EXPECT_EQ(dump_cqe(Cqe{}), "[0] invalid");
    auto error = std::bit_cast<ErrorCqe>(cqe(CqeOpcode::requester_error));
    error.syndrome = 0x13;
    error.vendor_syndrome = 0x88;
    EXPECT_EQ(dump_cqe(std::bit_cast<Cqe>(error)),
              "[1] failed write qp 0x101 wqe #9: remote access error (syndrome 0x13, vendor 0x88)");
    error.op_own = make_op_own(CqeOpcode::responder_error, false);
    EXPECT_EQ(dump_cqe(std::bit_cast<Cqe>(error)),
              "[0] failed receive qp 0x101 wqe #9: remote access error (syndrome 0x13, vendor "
              "0x88)");
    error.syndrome = 0x77;
    EXPECT_EQ(dump_cqe(std::bit_cast<Cqe>(error)),
              "[0] failed receive qp 0x101 wqe #9: unknown syndrome (syndrome 0x77, vendor 0x88)");
    EXPECT_EQ(dump_cqe(cqe(CqeOpcode::resized)), "[1] goes on in another buffer");
    EXPECT_EQ(dump_cqe(cqe(static_cast<CqeOpcode>(7))), "[1] cqe opcode 7 qp 0x101 wqe #9");
}

TEST(Dump, completions_are_sentences) {
    Completion done;
    done.id = 12;
    done.opcode = Opcode::write;
    done.queue_pair = 0x101;
    EXPECT_EQ(describe(done), "write 12 on queue pair 0x101 done");
    done.status = Errc::remote_access;
    done.syndrome = 0x13;
    done.vendor_syndrome = 0x88;
    EXPECT_EQ(describe(done), "write 12 on queue pair 0x101 failed: " +
                                  std::string(verbatim::describe(Errc::remote_access)) +
                                  " (syndrome 0x13, vendor 0x88)");
    Completion received;
    received.kind = CompletionKind::receive;
    received.bytes = 5;
    received.has_immediate = true;
    received.immediate = 0x20;
    EXPECT_EQ(describe(received), "receive 0 on queue pair 0x0 done, 5 bytes, immediate 0x20");
    EXPECT_EQ(name(static_cast<Opcode>(0x2f)), "opcode 0x2f");
}

TEST(Dump, never_reads_beyond_what_it_is_given) {
    std::mt19937 random(1);
    for (int round = 0; round < 20'000; ++round) {
        // Exactly as much memory as is shown, so that AddressSanitizer sees one byte more.
        std::vector<std::byte> bytes(random() % 130);
        for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
        if (bytes.size() > 8 && random() % 2 == 0)
            bytes[3] = static_cast<std::byte>(random() % 0x16);
        if (bytes.size() > 8 && random() % 2 == 0)
            bytes[7] = static_cast<std::byte>(bytes.size() / 16);
        EXPECT_FALSE(dump_wqe(bytes).empty());
        EXPECT_FALSE(dump_wqe(bytes, Transport::unreliable_datagram).empty());
        EXPECT_FALSE(dump_receive_entry(bytes).empty());
        EXPECT_FALSE(dump_shared_receive_entry(bytes).empty());
    }
    for (const Opcode opcode : {Opcode::write, Opcode::fetch_add, Opcode::send}) {
        const auto whole = bytes_of(opcode == Opcode::fetch_add ? atomic_request(opcode)
                                                                : inline_request(opcode, 40));
        for (std::size_t size = 0; size < 16; ++size) {
            EXPECT_EQ(dump_wqe(std::vector<std::byte>(
                          whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))),
                      "(cut off)");
        }
    }
}

}  // namespace
}  // namespace verbatim::mlx5
