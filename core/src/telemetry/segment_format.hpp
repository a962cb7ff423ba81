// The bytes of a segment; docs/telemetry.md, "Layout", is the text. The version fixes all sizes and
// offsets, so a reader compares them with its own and computes none from the file.
//
// A slot is a sequence and two copies of its counts. Its writer fills the copy that the next
// sequence selects, then stores that sequence. A reader's copy is whole if the sequence is still
// the same behind it; a writer that dies at any store leaves the last copy readable.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <verbatim/core/telemetry.hpp>

namespace verbatim::telemetry {

inline constexpr std::uint64_t kMagic = 0x3159'5254'4d54'4256;  // "VBTMTRY1"
inline constexpr std::uint64_t kVersion = 1;

enum class Section : std::uint8_t { devices, lanes, pollers, arenas, connections, histograms };
inline constexpr std::size_t kSections = 6;

struct SectionPlan {
    std::size_t payload_bytes, slots;
    // Sequence and padding, then the two copies, whole cache lines each.
    constexpr std::size_t copy_bytes() const noexcept { return (payload_bytes + 63) / 64 * 64; }
    constexpr std::size_t slot_bytes() const noexcept { return 64 + 2 * copy_bytes(); }
    constexpr std::size_t bytes() const noexcept {
        return (slots * slot_bytes() + 4095) / 4096 * 4096;
    }
};
inline constexpr std::array<SectionPlan, kSections> kPlan{{
    {sizeof(DeviceCounts), 4},
    {sizeof(LaneCounts), 256},
    {sizeof(PollerCounts), 256},
    {sizeof(ArenaCounts), 32},
    {sizeof(ConnectionCounts), 4096},
    {sizeof(NamedHistogram), 512},
}};

struct Header {
    // Written last, once.
    std::uint64_t magic = 0;
    std::uint64_t version = 0, bytes = 0;  // of the whole file
    std::uint64_t pid = 0, created_ns = 0, interval_ns = 0;
    std::array<char, 32> program{};
    // Slots from the first one on that were ever used. Owner: the context, under its lock.
    std::array<std::uint64_t, kSections> used{};
};
inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes && std::is_trivially_copyable_v<Header>);
static_assert(std::is_trivially_copyable_v<ConnectionCounts> && sizeof(ConnectionCounts) % 8 == 0);
static_assert(std::is_trivially_copyable_v<NamedHistogram> && sizeof(NamedHistogram) % 8 == 0);

constexpr const SectionPlan& plan_of(Section section) noexcept {
    return kPlan[static_cast<std::size_t>(section)];
}
constexpr std::size_t offset_of(Section section) noexcept {
    std::size_t at = kHeaderBytes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(section); ++i) at += kPlan[i].bytes();
    return at;
}
inline constexpr std::size_t kSegmentBytes =
    offset_of(Section::histograms) + plan_of(Section::histograms).bytes();

}  // namespace verbatim::telemetry
