// Data and inline segments.
#include "request_elements.hpp"

#include <algorithm>

namespace verbatim::softnic {

using mlx5::Syndrome;

Syndrome RequestElements::collect(const SendRequest& request, std::size_t first_unit, Access wanted,
                                  PieceList& list) noexcept {
    const std::size_t units = request.units();
    for (std::size_t unit = first_unit; unit < units;) {
        const auto segment = request.wqe.read<mlx5::DataSegment>(unit);
        const std::uint32_t count = segment.byte_count.native();
        if ((count & mlx5::kInlineFlag) != 0) {
            const std::uint32_t bytes = count & mlx5::kInlineCountMask;
            const std::size_t room = (units - unit) * mlx5::kUnitBytes - sizeof(mlx5::InlineHeader);
            if (bytes > room || wanted != Access::local_read) {
                failure_->set("an inline segment of {} bytes does not fit its entry", bytes);
                return Syndrome::local_queue_pair;
            }
            unit += collect_inline(request.wqe, unit, bytes, list);
            continue;
        }
        const std::uint32_t bytes = count == 0 ? mlx5::kMaxElementBytes : count;
        const Syndrome syndrome =
            local_.add(segment.key.native(), segment.address.native(), bytes, wanted, list);
        if (syndrome != kNoSyndrome) return syndrome;
        ++unit;
    }
    if (list.total <= kMaxMessageBytes) return kNoSyndrome;
    failure_->set("a request of {} bytes; at most {} are possible", list.total, kMaxMessageBytes);
    return Syndrome::local_length;
}

// Returns the units the inline segment takes.
std::size_t RequestElements::collect_inline(const WqeReader& wqe, std::size_t unit,
                                            std::uint32_t bytes, PieceList& list) noexcept {
    const std::size_t start = unit * mlx5::kUnitBytes + sizeof(mlx5::InlineHeader);
    const std::size_t first = std::min<std::size_t>(bytes, wqe.contiguous(start));
    if (first != 0) list.add(wqe.at(start), first);
    if (bytes != first) list.add(wqe.at(start + first), bytes - first);
    return (sizeof(mlx5::InlineHeader) + bytes + mlx5::kUnitBytes - 1) / mlx5::kUnitBytes;
}

bool RequestElements::name(const SendRequest& request, std::size_t first_unit,
                           const void* address) noexcept {
    const auto touched = reinterpret_cast<std::uintptr_t>(address);
    // The faulting access may be a wide one that begins before an element.
    constexpr std::uintptr_t kWidest = 64;
    const std::size_t units = request.units();
    for (std::size_t unit = first_unit; unit < units; ++unit) {
        const auto segment = request.wqe.read<mlx5::DataSegment>(unit);
        const std::uint32_t count = segment.byte_count.native();
        if ((count & mlx5::kInlineFlag) != 0) return false;
        PieceList list;
        const Syndrome found = local_.add(segment.key.native(), segment.address.native(), count,
                                          Access::local_read, list);
        if (found != kNoSyndrome || list.count == 0) continue;
        const auto start = reinterpret_cast<std::uintptr_t>(list.items[0].data);
        if (touched + kWidest > start && touched < start + count + kWidest) return true;
    }
    return false;
}

}  // namespace verbatim::softnic
