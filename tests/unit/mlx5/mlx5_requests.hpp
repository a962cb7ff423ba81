// Work requests for the tests of the data path, and what a device must see of them.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
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
    std::optional<WindowBinding> binding;

    const WorkRequest& get() {
        work.elements = elements;
        work.inline_payload = inline_payload;
        if (binding) work.window = &*binding;
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

// An update of a memory key, in the words of the manual's tables.
inline prm::KeyUpdate expected_update(const WorkRequest& work, std::uint32_t number) {
    constexpr std::uint64_t kLength = 1 << 0, kStart = 1 << 6, kVariant = 1 << 13,
                            kNumber = 1 << 14, kRights = 0xf << 18, kFree = 1 << 29;
    prm::KeyUpdate update{.in_line = true, .translation_offset = true};
    update.number = 0xffffff;
    update.mask = kFree | kVariant;
    if (work.opcode == Opcode::local_invalidate) {
        update.free = update.check_number = true;
        update.mask |= kNumber;
        return update;
    }
    const WindowBinding& window = *work.window;
    update.variant = window.new_key & 0xff;
    update.free = window.bytes == 0;
    if (update.free) return update;
    update.mask |= kLength | kStart | kRights;
    update.translation_units = 4;
    update.atomic = window.remote_atomic;
    update.remote_write = window.remote_write;
    update.remote_read = window.remote_read;
    update.start = window.zero_based ? 0 : window.address;
    update.bytes = window.bytes;
    if (!window.of_queue_pair) return update;
    update.number = number;
    update.check_free = true;
    update.mask |= kNumber;
    return update;
}

// What the manual's tables should find for a request. Where the WQE lies is taken from `seen`.
inline prm::SendWqe expected_wqe(const prm::SendWqe& seen, Request& asked, bool behind_update) {
    const WorkRequest& work = asked.get();
    prm::SendWqe wqe{.opcode = static_cast<std::uint32_t>(work.opcode),
                     .index = seen.index,
                     .number = seen.number,
                     .units = seen.units,
                     .fence = work.fence      ? 4U
                              : behind_update ? 1U
                                              : 0U,
                     .completion = work.signaled ? 2U : 0U,
                     .solicited = work.solicited};
    if (has_immediate(work.opcode)) wqe.immediate = work.immediate;
    if (work.opcode == Opcode::send_invalidate || work.opcode == Opcode::local_invalidate)
        wqe.immediate = work.invalidated_key;
    if (is_key_update(work.opcode)) {
        wqe.opcode = static_cast<std::uint32_t>(Opcode::local_invalidate);
        wqe.update = expected_update(work, seen.number);
        if (work.window == nullptr || work.opcode == Opcode::local_invalidate) return wqe;
        wqe.immediate = work.window->window_key;
        if (work.window->bytes != 0)
            wqe.pieces.push_back(
                {work.window->address, work.window->bytes & 0x7fffffff, work.window->local_key});
        return wqe;
    }
    if (has_remote(work.opcode)) wqe.remote = {work.remote_address, work.remote_key};
    if (is_atomic(work.opcode))
        wqe.atomic = {work.swap_or_add, work.opcode == Opcode::compare_swap ? work.compare : 0};
    wqe.payload = asked.inline_payload;
    for (const Element& one : asked.elements)
        wqe.pieces.push_back({one.address, one.bytes & 0x7fffffff, one.local_key});
    return wqe;
}

// Both of the device's decoders find in the WQE what was asked for. `behind_update`: the request
// before it in the queue was an update of a memory key.
inline void expect_sees(const SeenWqe& seen, Request& asked, bool behind_update = false) {
    const WorkRequest& work = asked.get();
    EXPECT_TRUE(seen.described == expected_wqe(seen.described, asked, behind_update))
        << "by the manual's tables, opcode " << static_cast<unsigned>(seen.opcode);
    if (is_key_update(work.opcode)) return;  // by disagreement()
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
