// Segment by segment. Payload that lies in the WQE goes inline where the device takes as much and
// nothing is gathered behind it; else it is gathered from the ring, where it stays until the
// request retires. Verbs has no no-op: an empty write, which names no memory, takes its place.
#include "wqe_translation.hpp"

#include <algorithm>

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>

namespace verbatim::verbs {
namespace {

using mlx5::Opcode;
using softnic::WqeReader;

constexpr std::size_t kUpdateUnit = 1, kKeyUnit = 4, kTranslationUnit = 8;

class ElementList {
  public:
    explicit ElementList(std::span<ibv_sge> room) noexcept : room_(room) {}
    void add(std::uint64_t address, std::uint64_t bytes, std::uint32_t key) noexcept {
        if (count_ == room_.size()) {
            fits_ = false;
            return;
        }
        room_[count_++] = {address, static_cast<std::uint32_t>(bytes), key};
    }
    bool fits() const noexcept { return fits_; }
    void give_to(ibv_send_wr& work) const noexcept {
        work.sg_list = room_.data();
        work.num_sge = static_cast<int>(count_);
    }

  private:
    std::span<ibv_sge> room_;
    std::size_t count_ = 0;
    bool fits_ = true;
};

// Returns the units it took.
std::size_t add_inline(const WqeReader& wqe, std::size_t unit, const TranslationFacts& facts,
                       ElementList& list, std::uint32_t bytes) noexcept {
    std::size_t at = unit * mlx5::kUnitBytes + sizeof(mlx5::InlineHeader);
    for (std::size_t left = bytes; left != 0;) {
        const std::size_t now = std::min(left, wqe.contiguous(at));
        list.add(reinterpret_cast<std::uint64_t>(wqe.at(at)), now, facts.ring_key);
        at += now;
        left -= now;
    }
    return mlx5::inline_units(bytes);
}

// Payload and elements from this unit to the WQE's end.
bool gather(const WqeReader& wqe, std::size_t unit, std::size_t units,
            const TranslationFacts& facts, ElementList& list, ibv_send_wr& work) noexcept {
    std::size_t in_ring = 0;
    bool gathers = false;
    while (unit < units) {
        const auto segment = wqe.read<mlx5::DataSegment>(unit);
        const std::uint32_t count = segment.byte_count.native();
        if ((count & mlx5::kInlineFlag) != 0) {
            const std::uint32_t bytes = count & mlx5::kInlineCountMask;
            unit += std::max<std::size_t>(add_inline(wqe, unit, facts, list, bytes), 1);
            in_ring += bytes;
            continue;
        }
        list.add(segment.address.native(), count == 0 ? mlx5::kMaxElementBytes : count,
                 segment.key.native());
        gathers = true;
        ++unit;
    }
    list.give_to(work);
    if (in_ring != 0 && in_ring <= facts.inline_bytes && !gathers)
        work.send_flags |= IBV_SEND_INLINE;
    return list.fits();
}

bool translate_window(const WqeReader& wqe, std::uint32_t key, const TranslationFacts& facts,
                      ibv_send_wr& work) noexcept {
    const auto target = wqe.read<mlx5::KeySegment>(kKeyUnit);
    work.opcode = IBV_WR_BIND_MW;
    work.bind_mw.mw = facts.keys->window(key);
    work.bind_mw.rkey = (key & ~0xffU) | (target.queue_pair_variant.native() & 0xff);
    ibv_mw_bind_info& info = work.bind_mw.bind_info;
    info = {};
    if (work.bind_mw.mw == nullptr) return false;
    if ((target.free & mlx5::kKeyFree) != 0) return true;  // it closes: no memory
    const auto memory = wqe.read<mlx5::DataSegment>(kTranslationUnit);
    info.mr = facts.keys->region(memory.key.native());
    info.addr = memory.address.native();
    info.length = target.bytes.native();
    const bool zero_based = target.start.native() == 0 && info.addr != 0;
    const auto flag = [&](std::uint8_t bit, unsigned access) {
        if ((target.access & bit) != 0) info.mw_access_flags |= access;
    };
    flag(mlx5::kKeyRemoteRead, IBV_ACCESS_REMOTE_READ);
    flag(mlx5::kKeyRemoteWrite, IBV_ACCESS_REMOTE_WRITE);
    flag(mlx5::kKeyRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC);
    if (zero_based) info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    return info.mr != nullptr;
}

bool translate_key_update(const WqeReader& wqe, std::uint32_t key, const TranslationFacts& facts,
                          ibv_send_wr& work) noexcept {
    const auto update = wqe.read<mlx5::KeyUpdateSegment>(kUpdateUnit);
    if (mlx5::key_update_opcode(update) == Opcode::bind_window)
        return translate_window(wqe, key, facts, work);
    work.opcode = IBV_WR_LOCAL_INV;
    work.invalidate_rkey = key;
    return true;
}

void translate_atomic(const WqeReader& wqe, Opcode opcode, const mlx5::RemoteAddressSegment& remote,
                      ibv_send_wr& work) noexcept {
    const auto operands = wqe.read<mlx5::AtomicSegment>(2);
    const bool swaps = opcode == Opcode::compare_swap;
    work.opcode = swaps ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
    work.wr.atomic.remote_addr = remote.address.native();
    work.wr.atomic.rkey = remote.key.native();
    // Verbs calls the addend "compare_add".
    const std::uint64_t swap_or_add = operands.swap_or_add.native();
    work.wr.atomic.compare_add = swaps ? operands.compare.native() : swap_or_add;
    work.wr.atomic.swap = swaps ? swap_or_add : 0;
}

ibv_wr_opcode plain_opcode(Opcode opcode) noexcept {
    switch (opcode) {
        case Opcode::write_immediate:
            return IBV_WR_RDMA_WRITE_WITH_IMM;
        case Opcode::read:
            return IBV_WR_RDMA_READ;
        case Opcode::send:
            return IBV_WR_SEND;
        case Opcode::send_immediate:
            return IBV_WR_SEND_WITH_IMM;
        case Opcode::send_invalidate:
            return IBV_WR_SEND_WITH_INV;
        default:
            return IBV_WR_RDMA_WRITE;
    }
}

unsigned flags_of(const mlx5::ControlSegment& control) noexcept {
    const std::uint8_t flags = control.fence_completion_event;
    return ((flags & mlx5::kCompletionAlways) != 0 ? unsigned{IBV_SEND_SIGNALED} : 0) |
           // A small fence, behind a key update, is the provider's own affair.
           ((flags & mlx5::kFence) != 0 ? unsigned{IBV_SEND_FENCE} : 0) |
           ((flags & mlx5::kSolicited) != 0 ? unsigned{IBV_SEND_SOLICITED} : 0);
}

}  // namespace

bool translate_wqe(const WqeReader& wqe, const TranslationFacts& facts, std::span<ibv_sge> elements,
                   ibv_send_wr& work) noexcept {
    const auto control = wqe.read<mlx5::ControlSegment>(0);
    const auto opcode = static_cast<Opcode>(mlx5::opcode_of(control));
    const std::size_t units = mlx5::units_of(control);
    work = {};
    work.send_flags = flags_of(control);
    if (opcode == Opcode::local_invalidate)
        return translate_key_update(wqe, control.immediate.native(), facts, work);
    work.opcode = plain_opcode(opcode);
    ElementList list(elements);
    if (opcode == Opcode::nop) return true;
    if (opcode == Opcode::send_invalidate)
        work.invalidate_rkey = control.immediate.native();
    else
        work.imm_data = control.immediate.raw();
    std::size_t unit = 1;
    if (mlx5::names_memory_plainly(opcode)) {
        const auto remote = wqe.read<mlx5::RemoteAddressSegment>(unit++);
        if (mlx5::is_plain_atomic(opcode)) {
            translate_atomic(wqe, opcode, remote, work);
            ++unit;
        } else {
            work.wr.rdma.remote_addr = remote.address.native();
            work.wr.rdma.rkey = remote.key.native();
        }
    } else if (!mlx5::is_send(opcode)) {
        return false;  // masked atomics, which the queue refuses when they are posted
    }
    return gather(wqe, unit, units, facts, list, work);
}

}  // namespace verbatim::verbs
