// The arena of the lines, and its memory as regions.
#include "posted_lines.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kSegment = std::size_t{64} << 10, kMost = std::size_t{64} << 20;

ArenaOptions lines_arena(const ArenaOptions& like) {
    return {.name = "posted lines",
            .segment_bytes = kSegment,
            .max_bytes = kMost,
            .pages = PageChoice::base_4k,
            .lock_memory = like.lock_memory,
            .numa_node = like.numa_node};
}

}  // namespace

PostedLines::PostedLines(Device& device, const ArenaOptions& like)
    : device_(device), arena_(lines_arena(like)) {}

std::unique_ptr<MemoryRegion> PostedLines::lend(std::span<std::byte> memory, Access access) {
    const auto offset = static_cast<std::size_t>(memory.data() - arena_.base());
    const Arena::Segment segment = arena_.segment(offset / kSegment);
    return device_.register_memory(memory.data(), memory.size(), access,
                                   {segment.file, segment.file_offset + offset % kSegment});
}

}  // namespace verbatim
