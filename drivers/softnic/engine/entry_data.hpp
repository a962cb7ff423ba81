// Data that the device leaves in the completion's entry, from where the driver brings it to memory
// ("scatter to CQE"): small receives, reads and atomics of queue pairs that ask for it. Only where
// the driver can: it goes by the addresses in the request, so they must be the process's own.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/mlx5/formats.hpp>

#include "../keys/pieces.hpp"

namespace verbatim::softnic {

// What entries of 64 and of 128 bytes have room for.
inline constexpr std::uint32_t kDataInEntry = 32, kDataBeforeEntry = 64;

// Whether the pieces, one of each element, lie at the addresses that the elements name; `element`
// reads the nth of these.
template <class Element>
bool lies_where_named(const PieceList& list, Element&& element) noexcept {
    for (std::size_t i = 0; i < list.count; ++i) {
        const mlx5::DataSegment named = element(i);
        if (reinterpret_cast<std::uint64_t>(list.items[i].data) != named.address.native() ||
            named.byte_count.native() != list.items[i].bytes)
            return false;
    }
    return true;
}

// Memory that went is noticed by the device, which can say so, and not by the driver's copy.
inline void touch(const PieceList& list, std::uint64_t bytes) noexcept {
    for_each_part(list, 0, bytes, [](const std::byte* data, std::size_t part) {
        const volatile std::byte* const at = data;
        static_cast<void>(at[0]);
        static_cast<void>(at[part - 1]);
    });
}

}  // namespace verbatim::softnic
