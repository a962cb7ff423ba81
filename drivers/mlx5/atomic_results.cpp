// Results of atomics that a device leaves in big endian: on ConnectX those of 4 bytes always, those
// of 8 bytes where its firmware was not told the host's byte order (QUERY_HCA_CAP,
// atomic_req_8B_endianness_mode). Turned round once, when the request retires: from then on the
// memory is its owner's.
#include "atomic_results.hpp"

#include <algorithm>
#include <cstring>

#include <verbatim/mlx5/send_ring.hpp>

namespace verbatim::mlx5 {

namespace {

constexpr std::uint32_t kBlockUnits = kBlockBytes / kUnitBytes;

}  // namespace

void SendRing::results_to_host_order(std::uint32_t first, std::uint32_t blocks) const noexcept {
    for (std::uint32_t at = 0, step = 0; at < blocks; at += step) {
        const auto counter = static_cast<std::uint16_t>(first + at);
        step = blocks_at(counter);
        if (step == 0) return;  // the caller's counts say that this cannot be
        ControlSegment control;
        std::memcpy(&control, block_at(counter), sizeof control);
        if (!is_atomic(static_cast<Opcode>(opcode_of(control)))) continue;
        const std::uint32_t bytes = atomic_bytes_at(counter);
        if ((limits_.big_endian_results & bytes) == 0) continue;
        const std::uint32_t unit = atomic_element_unit(control);
        DataSegment element;
        std::memcpy(&element,
                    block_at(counter + unit / kBlockUnits) + unit % kBlockUnits * kUnitBytes,
                    sizeof element);
        auto* const result = reinterpret_cast<std::byte*>(element.address.native());
        std::reverse(result, result + bytes);
    }
}

}  // namespace verbatim::mlx5
