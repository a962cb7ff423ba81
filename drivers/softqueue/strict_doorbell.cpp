// The checks of a strict doorbell.
#include "strict_doorbell.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <verbatim/mlx5/work_request.hpp>

#include "completion_ring.hpp"
#include "wqe_reader.hpp"

namespace verbatim::softnic {
namespace {

// What unwritten register bytes hold: no driver writes it, so a BlueFlame copy can be told from a
// doorbell.
constexpr std::uint8_t kUntouched = 0xa5;

constexpr std::size_t kDoorbellBytes = 8;

std::uint8_t byte_at(const volatile std::byte* half, std::size_t offset) noexcept {
    return static_cast<std::uint8_t>(half[offset]);
}

}  // namespace

StrictDoorbell::StrictDoorbell(const mlx5::QueuePairView& view, FailureText& failure) noexcept
    : view_(view), failure_(&failure) {
    scrub();
}

void StrictDoorbell::reset() noexcept {
    counter_ = 0;
    previous_half_ = nullptr;
    copies_ = false;
    updated_key_ = false;
    scrub();
}

void StrictDoorbell::scrub() noexcept {
    for (std::size_t i = 0; i < 2 * std::size_t{view_.blueflame_bytes}; ++i)
        view_.doorbell_register[i] = std::byte{kUntouched};
}

bool StrictDoorbell::accept(const volatile void* register_half) noexcept {
    const auto* const half = static_cast<const volatile std::byte*>(register_half);
    const auto record =
        static_cast<std::uint16_t>(read_record(view_.doorbell_record + mlx5::kRecordSend));
    Last last;
    const bool good = check_half(half) && walk(record, last) && check_register(half, last) &&
                      check_copy(half, last);
    if (good) {
        counter_ = record;
        updated_key_ = last.updates_key;
    }
    copies_ = copies_ || copied_bytes(half) > kDoorbellBytes;
    previous_half_ = half;
    scrub();
    return good;
}

bool StrictDoorbell::check_half(const volatile std::byte* half) noexcept {
    const volatile std::byte* const first = view_.doorbell_register;
    const bool is_half =
        half == first || (view_.blueflame_bytes != 0 && half == first + view_.blueflame_bytes);
    if (!is_half) {
        failure_->set("the doorbell was written outside the register's two halves");
    } else if (half == previous_half_ && (copies_ || copied_bytes(half) > kDoorbellBytes)) {
        failure_->set(
            "the same BlueFlame half was written twice in a row; the halves must alternate");
    } else {
        return true;
    }
    return false;
}

// Finds the last posted WQE by walking from the last good doorbell to the record.
bool StrictDoorbell::walk(std::uint16_t record, Last& last) noexcept {
    if (record == counter_) {
        failure_->set(
            "the doorbell record still holds {}: it must be updated before the register is written",
            record);
        return false;
    }
    if (static_cast<std::uint16_t>(record - counter_) > view_.send_blocks) {
        failure_->set("the doorbell record went from {} to {} on a ring of {} blocks", counter_,
                      record, view_.send_blocks);
        return false;
    }
    last.updates_key = updated_key_;
    for (std::uint16_t index = counter_; index != record;) {
        last.control = WqeReader(view_, index).read<mlx5::ControlSegment>(0);
        last.index = index;
        last.blocks = mlx5::blocks_for_units(mlx5::units_of(last.control));
        if (last.blocks == 0 || last.blocks > static_cast<std::uint16_t>(record - index)) {
            failure_->set(
                "the send queue entry at {} has {} blocks, which disagrees with doorbell record {}",
                index, last.blocks, record);
            return false;
        }
        if (mlx5::index_of(last.control) != index ||
            mlx5::number_of(last.control) != view_.number) {
            failure_->set(
                "the send queue entry at {} says index {} and queue pair {}, this is queue pair {}",
                index, mlx5::index_of(last.control), mlx5::number_of(last.control), view_.number);
            return false;
        }
        if (!check_fence(index, last)) return false;
        index = static_cast<std::uint16_t>(index + last.blocks);
    }
    return true;
}

// A card begins the next entry while it still updates a key, unless that entry waits.
bool StrictDoorbell::check_fence(std::uint16_t index, Last& last) noexcept {
    const bool fenced =
        (last.control.fence_completion_event & (mlx5::kFence | mlx5::kSmallFence)) != 0;
    if (last.updates_key && !fenced) {
        failure_->set("the send queue entry at {} follows the update of a key without a fence",
                      index);
        return false;
    }
    last.updates_key =
        mlx5::opcode_of(last.control) == static_cast<std::uint8_t>(mlx5::Opcode::local_invalidate);
    return true;
}

bool StrictDoorbell::check_register(const volatile std::byte* half, const Last& last) noexcept {
    std::array<std::uint8_t, 8> written;
    for (std::size_t i = 0; i < written.size(); ++i) written[i] = byte_at(half, i);
    if (std::memcmp(written.data(), &last.control, written.size()) == 0) return true;
    mlx5::ControlSegment rung;
    std::memcpy(static_cast<void*>(&rung), written.data(), written.size());
    failure_->set(
        "the register got index {}, opcode {:#x}, queue pair {}; the last posted entry has index "
        "{}, opcode {:#x}, "
        "queue pair {}",
        mlx5::index_of(rung), mlx5::opcode_of(rung), mlx5::number_of(rung), last.index,
        mlx5::opcode_of(last.control), mlx5::number_of(last.control));
    return false;
}

std::size_t StrictDoorbell::copied_bytes(const volatile std::byte* half) const noexcept {
    std::size_t copied = view_.blueflame_bytes;
    while (copied > kDoorbellBytes && byte_at(half, copied - 1) == kUntouched) --copied;
    return copied;
}

// A BlueFlame copy carries whole blocks, of which the last entry's bytes count; a plain doorbell
// touches 8 bytes only.
bool StrictDoorbell::check_copy(const volatile std::byte* half, const Last& last) noexcept {
    const std::size_t copied = copied_bytes(half);
    if (copied <= kDoorbellBytes) return true;
    const WqeReader wqe(view_, last.index);
    const std::size_t wanted = std::size_t{last.blocks} * mlx5::kBlockBytes;
    const std::size_t entry = mlx5::units_of(last.control) * mlx5::kUnitBytes;
    for (std::size_t i = 0;
         i < std::max(copied, std::min<std::size_t>(wanted, view_.blueflame_bytes)); ++i) {
        const bool counts = i < entry;
        if (i < wanted && (!counts || byte_at(half, i) == static_cast<std::uint8_t>(*wqe.at(i))))
            continue;
        failure_->set("byte {} of the BlueFlame copy differs from the send queue entry at {}", i,
                      last.index);
        return false;
    }
    return true;
}

}  // namespace verbatim::softnic
