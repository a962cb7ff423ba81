// Requests of one-sided writes.
#include "one_sided_writes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace verbatim {
namespace {

constexpr std::size_t kMaxElements = 16;
// From here on a write gets a completion of its own, so that a flush need not post one more
// request; copying this much takes several times as long as a completion.
constexpr std::size_t kSignalBytes = 4096;

}  // namespace

OneSidedWrites::OneSidedWrites(SendPath& path, RegionTable& regions, std::uint64_t most)
    : path_(path),
      regions_(regions),
      most_(std::min<std::uint64_t>(most, std::uint64_t{1} << 31)),
      word_{mlx5::PreparedWrite8(path.queue(), {.opcode = mlx5::Opcode::write})} {}

Errc OneSidedWrites::try_write(const std::byte* from, std::size_t bytes, mlx5::RemoteMemory to,
                               std::size_t& written) noexcept {
    written = 0;
    path_.make_room();
    while (written < bytes) {
        const std::byte* at = from + written;
        std::size_t piece = bytes - written;
        const mlx5::RemoteMemory target{to.address + written, to.key};
        const Errc error = piece == 8 ? write_word(at, target) : write_gathered(at, piece, target);
        if (error != Errc::ok) [[unlikely]]
            return error;
        written += piece;
        last_ = path_.accepted();
    }
    return Errc::ok;
}

Errc OneSidedWrites::write_word(const std::byte* from, mlx5::RemoteMemory to) noexcept {
    // Copied by this thread: where nothing is registered nothing may be mapped.
    for (const std::byte* end : {from, from + sizeof(std::uint64_t) - 1}) {
        const MemoryRegion* region = nullptr;
        if (const Errc error = regions_.find_or_register(end, region); error != Errc::ok)
            [[unlikely]]
            return error;
    }
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return path_.post(word_, to, word);
}

Errc OneSidedWrites::write_gathered(const std::byte* from, std::size_t& bytes,
                                    mlx5::RemoteMemory to) noexcept {
    std::array<mlx5::Element, kMaxElements> elements;
    const std::size_t most = std::min<std::size_t>(kMaxElements, path_.limits().max_elements);
    const std::size_t wanted = std::min<std::size_t>(bytes, most_);
    std::size_t count = 0, taken = 0;
    for (; count < most && taken < wanted; ++count) {
        const MemoryRegion* region = nullptr;
        const std::byte* at = from + taken;
        if (const Errc error = regions_.find_or_register(at, region); error != Errc::ok)
            return error;
        const std::size_t piece = std::min(wanted - taken, regions_.to_segment_end(at));
        elements[count] = {reinterpret_cast<std::uint64_t>(at), static_cast<std::uint32_t>(piece),
                           region->local_key()};
        taken += piece;
    }
    mlx5::WorkRequest request{.opcode = mlx5::Opcode::write,
                              .remote_address = to.address,
                              .remote_key = to.key,
                              .elements = std::span(elements).first(count)};
    if (taken >= kSignalBytes) path_.signal_next();
    bytes = taken;
    return path_.post(request);
}

Errc OneSidedWrites::try_flush() noexcept {
    for (bool asked = false; path_.retired() < last_; asked = true) {
        if (const Errc error = path_.poll(); error != Errc::ok) return error;
        if (path_.retired() >= last_) break;
        if (asked) return Errc::would_block;
        if (const Errc error = path_.signal_last(); error != Errc::ok) return error;
    }
    return path_.error();
}

}  // namespace verbatim
