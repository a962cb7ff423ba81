// Requests that touched registered memory which is not there (any more).
#include <algorithm>
#include <utility>

#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

// The request at the head touched it, or the oldest one, whose answer has come.
void SendEngine::recover(const void* address) noexcept {
    peer_.access().recover();
    own_access_.recover();
    shared_->failure.set("memory at {} is registered and not there (any more)", address);
    Unretired& oldest = this->oldest();
    if (std::exchange(takes_result_, false)) {
        oldest.syndrome = Syndrome::local_protection;
    } else {
        const std::uint16_t head = head_.load(std::memory_order_relaxed);
        Request request{WqeReader(view_, head), {}, {}};
        request.control = request.wqe.read<mlx5::ControlSegment>(0);
        const bool own = names_local(request, address);
        if (!own)
            shared_->outgoing.report_fault(static_cast<std::uint8_t>(Syndrome::remote_access));
        fail_next(own ? Syndrome::local_protection : Syndrome::remote_access,
                  std::max(mlx5::blocks_for_units(mlx5::units_of(request.control)), 1U));
    }
    if (shared_->is(QueuePairState::ready)) harvest(shared_->peer_silent());
    if (shared_->outgoing.take_news()) shared_->link->ring_bell();
    if (shared_->is(QueuePairState::error)) flush();
}

// Whether the address is in one of the request's own elements.
bool SendEngine::names_local(const Request& request, const void* address) noexcept {
    const std::size_t units = mlx5::units_of(request.control);
    const auto opcode = static_cast<Opcode>(mlx5::opcode_of(request.control));
    const bool sends = opcode == Opcode::send || opcode == Opcode::send_immediate ||
                       opcode == Opcode::send_invalidate;
    const auto touched = reinterpret_cast<std::uintptr_t>(address);
    // The faulting access may be a wide one that begins before an element.
    constexpr std::uintptr_t kWidest = 64;
    for (std::size_t unit = first_unit_ + (sends ? 0u : 1u); unit < units; ++unit) {
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
