// An atomic operation. One on memory of a peer that this process has not mapped crosses the ring as
// one record, and the peer executes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <verbatim/mlx5/endian.hpp>

namespace verbatim::softnic {

// Also the payload of such a record. Plain operations mask nothing out.
struct RemoteAtomic {
    std::uint64_t address = 0;  // as the key counts
    std::uint32_t key = 0;
    std::uint16_t bytes = 8;  // 4 or 8
    std::uint16_t swaps = 0;  // 1: compare and swap, 0: fetch and add
    std::uint64_t swap_or_add = 0, compare = 0;
    std::uint64_t swap_mask = ~std::uint64_t{0}, compare_mask = ~std::uint64_t{0};
    std::uint64_t field_ends = 0;  // no carry goes beyond these bits
};
static_assert(sizeof(RemoteAtomic) == 56 && std::is_trivially_copyable_v<RemoteAtomic>);

// On aligned memory of this process; what was there before.
std::uint64_t execute(const RemoteAtomic& operation, std::byte* at) noexcept;

// The bytes that a requester leaves of a result of 4 or 8 bytes: host byte order, or big endian.
class AtomicResult {
  public:
    AtomicResult(std::uint64_t before, std::uint32_t bytes, bool big_endian) noexcept
        : word_(!big_endian  ? before
                : bytes == 4 ? mlx5::be32(static_cast<std::uint32_t>(before)).raw()
                             : mlx5::be64(before).raw()) {}
    const std::byte* data() const noexcept { return reinterpret_cast<const std::byte*>(&word_); }

  private:
    std::uint64_t word_;
};

}  // namespace verbatim::softnic
