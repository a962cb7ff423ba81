// A WQE as a test device sees it: decoded by rdma-core's structures, and a second time by the
// tables of mlx5_prm.hpp.
#pragma once

#include <endian.h>
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <mlx5_prm.hpp>

namespace verbatim::mlx5::test {

// A WQE as the device sees it: taken out of the ring in one piece.
struct SeenWqe {
    std::vector<std::byte> bytes;
    std::uint16_t index = 0;
    std::uint8_t opcode = 0, modifier = 0;
    std::uint32_t number = 0, units = 0;
    std::uint8_t flags = 0;
    std::uint32_t immediate = 0;
    std::optional<mlx5_wqe_raddr_seg> remote;  // as it lies in memory: big endian
    std::optional<mlx5_wqe_atomic_seg> atomic;
    std::vector<std::byte> masked_operands;  // of a masked atomic operation
    std::optional<mlx5_wqe_umr_ctrl_seg> update;
    std::optional<mlx5_wqe_mkey_context_seg> key;
    std::vector<mlx5_wqe_data_seg> elements;
    std::vector<std::byte> inline_payload;
    prm::SendWqe described;  // the same by the other tables

    bool signaled() const { return (flags & MLX5_WQE_CTRL_CQ_UPDATE) != 0; }
    std::uint32_t blocks() const { return (units + 3) / 4; }
};

// The segments behind the control segment, by rdma-core's structures.
inline void take_payload(SeenWqe& seen) {
    std::size_t at = sizeof(mlx5_wqe_ctrl_seg);
    const auto take = [&](auto& segment) {
        if (at + sizeof segment > seen.bytes.size()) throw std::runtime_error("a WQE is cut off");
        std::memcpy(&segment, seen.bytes.data() + at, sizeof segment);
        at += sizeof segment;
    };
    if (seen.opcode == MLX5_OPCODE_UMR) {
        take(seen.update.emplace());
        take(seen.key.emplace());
        if (seen.update->klm_octowords != 0) take(seen.elements.emplace_back());
        return;
    }
    const bool atomic =
        seen.opcode == MLX5_OPCODE_ATOMIC_CS || seen.opcode == MLX5_OPCODE_ATOMIC_FA;
    const bool masked =
        seen.opcode == MLX5_OPCODE_ATOMIC_MASKED_CS || seen.opcode == MLX5_OPCODE_ATOMIC_MASKED_FA;
    if (atomic || masked || seen.opcode == MLX5_OPCODE_RDMA_WRITE ||
        seen.opcode == MLX5_OPCODE_RDMA_WRITE_IMM || seen.opcode == MLX5_OPCODE_RDMA_READ) {
        take(seen.remote.emplace());
    }
    if (atomic) take(seen.atomic.emplace());
    if (masked) {
        // 8: operands of 4 bytes, 9: of 8.
        const bool two = seen.opcode == MLX5_OPCODE_ATOMIC_MASKED_CS && seen.modifier == 9;
        const std::size_t end = at + (two ? 32 : 16);
        if (end > seen.bytes.size()) throw std::runtime_error("a WQE is cut off");
        seen.masked_operands.assign(seen.bytes.data() + at, seen.bytes.data() + end);
        at = end;
    }
    while (at < seen.bytes.size()) {
        mlx5_wqe_data_seg segment;
        take(segment);
        const std::uint32_t count = be32toh(segment.byte_count);
        if ((count & MLX5_INLINE_SEG) != 0) {
            const std::size_t bytes = count & 0x3ff;
            if (at - 12 + bytes > seen.bytes.size())
                throw std::runtime_error("inline payload is cut off");
            const std::byte* from = seen.bytes.data() + at - 12;
            seen.inline_payload.insert(seen.inline_payload.end(), from, from + bytes);
            at = (at - 12 + bytes + 15) / 16 * 16;
            continue;
        }
        seen.elements.push_back(segment);
    }
}

// Masked operands as rdma-core writes them: of 4 bytes swap, compare, swap mask, compare mask; or
// addend and field boundary. Of 8 bytes the same in words of that size.
inline void compare_masked(const SeenWqe& seen, std::string& text) {
    const prm::SendWqe& other = seen.described;
    if (seen.masked_operands.empty() || !other.masked) {
        text += " masked";
        return;
    }
    const auto value = [&](std::size_t nth) -> std::uint64_t {
        const std::byte* const at = seen.masked_operands.data();
        if (seen.modifier == 9) {
            std::uint64_t word = 0;
            std::memcpy(&word, at + nth * sizeof word, sizeof word);
            return be64toh(word);
        }
        std::uint32_t word = 0;
        std::memcpy(&word, at + nth * sizeof word, sizeof word);
        return be32toh(word);
    };
    const prm::MaskedAtomic& masked = *other.masked;
    if (value(0) != masked.swap_or_add) text += " masked operand";
    if (seen.opcode == MLX5_OPCODE_ATOMIC_MASKED_FA) {
        if (value(1) != masked.field_boundary) text += " field boundary";
        return;
    }
    if (value(1) != masked.compare || value(2) != masked.swap_mask ||
        value(3) != masked.compare_mask)
        text += " masked comparand or masks";
}

// What the two descriptions of a WQE see differently; empty: nothing.
inline std::string disagreement(const SeenWqe& seen) {
    const prm::SendWqe& other = seen.described;
    std::string text;
    const auto compare = [&](const char* what, std::uint64_t one, std::uint64_t two) {
        if (one != two) text += std::string(" ") + what;
    };
    for (const std::string& complaint : other.complaints) text += " " + complaint;
    compare("opcode", seen.opcode, other.opcode);
    compare("modifier", seen.modifier, other.modifier);
    compare("index", seen.index, other.index);
    compare("number", seen.number, other.number);
    compare("units", seen.units, other.units);
    compare("flags", seen.flags,
            other.fence << 5 | other.completion << 2 | (other.solicited ? 2U : 0U));
    compare("immediate", seen.immediate, other.immediate);
    compare("remote", seen.remote.has_value(), other.remote.has_value());
    if (seen.remote && other.remote) {
        compare("address", be64toh(seen.remote->raddr), other.remote->address);
        compare("key", be32toh(seen.remote->rkey), other.remote->key);
    }
    compare("atomic", seen.atomic.has_value(), other.atomic.has_value());
    if (seen.atomic && other.atomic) {
        compare("operand", be64toh(seen.atomic->swap_add), other.atomic->swap_or_add);
        compare("comparand", be64toh(seen.atomic->compare), other.atomic->compare);
    }
    if (!seen.masked_operands.empty() || other.masked) compare_masked(seen, text);
    compare("update", seen.update.has_value(), other.update.has_value());
    if (seen.update && seen.key && other.update) {
        compare("mask", be64toh(seen.update->mkey_mask), other.update->mask);
        compare("start", be64toh(seen.key->start_addr), other.update->start);
        compare("length", be64toh(seen.key->len), other.update->bytes);
        compare("variant", be32toh(seen.key->qpn_mkey),
                other.update->number << 8 | other.update->variant);
    }
    compare("payload", seen.inline_payload == other.payload, true);
    compare("elements", seen.elements.size(), other.pieces.size());
    for (std::size_t i = 0; i < std::min(seen.elements.size(), other.pieces.size()); ++i) {
        compare("bytes", be32toh(seen.elements[i].byte_count), other.pieces[i].bytes);
        compare("key", be32toh(seen.elements[i].lkey), other.pieces[i].key);
        compare("address", be64toh(seen.elements[i].addr), other.pieces[i].address);
    }
    return text;
}

}  // namespace verbatim::mlx5::test
