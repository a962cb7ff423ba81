// CRC-32 is the checksum of IEEE 802.3, as zlib computes it. Threads: any; nothing changes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbatim::softnic {

// `crc`: of the bytes before, or 0. By carry-less multiplication where the processor has it and
// there are enough bytes; else by tables.
std::uint32_t crc32(std::uint32_t crc, const std::byte* bytes, std::size_t count) noexcept;
// By tables alone.
std::uint32_t crc32_by_tables(std::uint32_t crc, const std::byte* bytes,
                              std::size_t count) noexcept;
// Whether the processor multiplies without carries.
bool crc32_multiplies() noexcept;

}  // namespace verbatim::softnic
