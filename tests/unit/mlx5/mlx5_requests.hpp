// Work requests for the tests of the data path, and what a device must see of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <mlx5_test_device.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5::test {

// Owns what a WorkRequest only points at.
struct Request {
    WorkRequest work;
    std::vector<Element> elements;
    std::vector<std::byte> inline_payload;

    const WorkRequest& get() {
        work.elements = elements;
        work.inline_payload = inline_payload;
        return work;
    }
};

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint8_t seed = 1) {
    std::vector<std::byte> result(bytes);
    for (std::size_t i = 0; i < bytes; ++i) result[i] = static_cast<std::byte>(seed + i * 7);
    return result;
}

inline Request request(Opcode opcode, std::uint64_t id = 0) {
    Request made;
    made.work.opcode = opcode;
    made.work.id = id;
    made.work.remote_address = 0x00007f0011223340;
    made.work.remote_key = 0x00c0ffee;
    made.work.immediate = 0x0a0b0c0d;
    made.work.compare = 0x1122334455667788;
    made.work.swap_or_add = 0x99aabbccddeeff00;
    made.work.invalidated_key = 0x00abcd01;
    return made;
}
inline Request inline_request(Opcode opcode, std::size_t bytes, std::uint64_t id = 0) {
    Request made = request(opcode, id);
    made.inline_payload = pattern(bytes, static_cast<std::uint8_t>(id));
    return made;
}
inline Request gather_request(Opcode opcode, std::size_t elements, std::uint64_t id = 0) {
    Request made = request(opcode, id);
    for (std::size_t i = 0; i < elements; ++i) {
        made.elements.push_back({0x0000560000001000 + i * 0x10001,
                                 static_cast<std::uint32_t>(8 + i * 16),
                                 static_cast<std::uint32_t>(0x100000 + i)});
    }
    return made;
}
inline Request atomic_request(Opcode opcode, std::uint64_t id = 0) {
    Request made = request(opcode, id);
    made.elements = {{0x0000560000002000, 8, 0x77}};
    return made;
}

// Plain opcodes too, which then travel masked if they are of 4 bytes.
inline Request masked_request(Opcode opcode, std::uint32_t bytes, std::uint64_t id = 0) {
    Request made = atomic_request(opcode, id);
    made.elements[0].bytes = bytes;
    made.work.compare_mask = 0x0000ffffffff0000;
    made.work.swap_mask = 0xff00ff00ff00ff00;
    made.work.field_ends = 0x8000000080000000;
    return made;
}

inline bool has_remote(Opcode opcode) {
    return opcode != Opcode::nop && !is_send(opcode) && !is_key_update(opcode);
}
inline bool has_immediate(Opcode opcode) {
    return opcode == Opcode::write_immediate || opcode == Opcode::send_immediate;
}

// The device's decoder (rdma-core's structures) finds in the WQE what was asked for.
inline void expect_sees(const SeenWqe& seen, Request& asked) {
    const WorkRequest& work = asked.get();
    EXPECT_EQ(seen.opcode, static_cast<std::uint8_t>(work.opcode));
    EXPECT_EQ(seen.modifier, 0);
    EXPECT_EQ(seen.signaled(), work.signaled);
    EXPECT_EQ((seen.flags & MLX5_WQE_CTRL_FENCE) != 0, work.fence);
    EXPECT_EQ((seen.flags & MLX5_WQE_CTRL_SOLICITED) != 0, work.solicited);
    EXPECT_EQ(seen.immediate, has_immediate(work.opcode)               ? work.immediate
                              : work.opcode == Opcode::send_invalidate ? work.invalidated_key
                                                                       : 0);
    ASSERT_EQ(seen.remote.has_value(), has_remote(work.opcode));
    if (seen.remote) {
        EXPECT_EQ(be64toh(seen.remote->raddr), work.remote_address);
        EXPECT_EQ(be32toh(seen.remote->rkey), work.remote_key);
        EXPECT_EQ(seen.remote->reserved, 0U);
    }
    if (seen.atomic) {
        EXPECT_EQ(be64toh(seen.atomic->swap_add), work.swap_or_add);
        EXPECT_EQ(be64toh(seen.atomic->compare),
                  work.opcode == Opcode::compare_swap ? work.compare : 0);
    }
    EXPECT_EQ(seen.inline_payload, asked.inline_payload);
    ASSERT_EQ(seen.elements.size(), asked.elements.size());
    for (std::size_t i = 0; i < seen.elements.size(); ++i) {
        EXPECT_EQ(be32toh(seen.elements[i].byte_count), asked.elements[i].bytes & 0x7fffffff);
        EXPECT_EQ(be32toh(seen.elements[i].lkey), asked.elements[i].local_key);
        EXPECT_EQ(be64toh(seen.elements[i].addr), asked.elements[i].address);
    }
}

}  // namespace verbatim::mlx5::test
