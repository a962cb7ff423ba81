// Opcodes and headers of the packets that requests and their answers become. Opcodes depend on the
// place of a packet in its message. Threads: any; nothing changes.
#pragma once

#include <cstdint>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "../../../rings/remote_atomic.hpp"
#include "packet.hpp"

namespace verbatim::softnic {

inline PacketOpcode send_opcode(mlx5::Opcode opcode, bool first, bool last) noexcept {
    using enum PacketOpcode;
    if (!last) return first ? send_first : send_middle;
    if (opcode == mlx5::Opcode::send_immediate)
        return first ? send_only_immediate : send_last_immediate;
    if (opcode == mlx5::Opcode::send_invalidate)
        return first ? send_only_invalidate : send_last_invalidate;
    return first ? send_only : send_last;
}

inline PacketOpcode write_opcode(bool immediate, bool first, bool last) noexcept {
    using enum PacketOpcode;
    if (!last) return first ? write_first : write_middle;
    if (immediate) return first ? write_only_immediate : write_last_immediate;
    return first ? write_only : write_last;
}

// Of a read's response.
inline PacketOpcode response_opcode(bool first, bool last) noexcept {
    using enum PacketOpcode;
    if (first) return last ? response_only : response_first;
    return last ? response_last : response_middle;
}

// What an atomic operation carries: AtomicHeader, or all of a masked one.
class AtomicPacket {
  public:
    explicit AtomicPacket(const RemoteAtomic& operation) noexcept
        : operation_(operation),
          header_{SplitWord(operation.address), mlx5::be32(operation.key),
                  SplitWord(operation.swap_or_add), SplitWord(operation.compare)} {}

    PacketOpcode opcode() const noexcept {
        if (!is_plain()) return PacketOpcode::masked_atomic;
        return operation_.swaps != 0 ? PacketOpcode::compare_swap : PacketOpcode::fetch_add;
    }
    const void* data() const noexcept {
        return is_plain() ? static_cast<const void*>(&header_) : &operation_;
    }
    std::size_t bytes() const noexcept { return is_plain() ? sizeof header_ : sizeof operation_; }

  private:
    bool is_plain() const noexcept {
        constexpr std::uint64_t kAllBits = ~std::uint64_t{0};
        return operation_.bytes == sizeof(std::uint64_t) && operation_.field_ends == 0 &&
               (operation_.swaps == 0 ||
                (operation_.swap_mask == kAllBits && operation_.compare_mask == kAllBits));
    }

    const RemoteAtomic& operation_;
    const AtomicHeader header_;
};

// Of a NAK for a request that ended so.
inline std::uint8_t refusal_of(std::uint8_t syndrome) noexcept {
    using mlx5::Syndrome;
    if (syndrome == static_cast<std::uint8_t>(Syndrome::remote_invalid)) return kWrongRequest;
    return syndrome == static_cast<std::uint8_t>(Syndrome::remote_access) ? kNoAccess
                                                                          : kFailedOperation;
}

// `messages`: that the responder has completed.
inline AnswerHeader answer_header(std::uint8_t syndrome, std::uint64_t messages) noexcept {
    constexpr int kSyndromeShift = 24;
    return {mlx5::be32(std::uint32_t{syndrome} << kSyndromeShift |
                       (static_cast<std::uint32_t>(messages) & kSequenceMask))};
}

}  // namespace verbatim::softnic
