// A work request encoded once, with setters for what may change between posts: addresses, keys,
// lengths, the immediate, atomic operands, inline payload of the same size. What would need another
// shape is refused. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/send_ring.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// An encoded request: whole blocks, index 0, and the places that may change.
class WqeImage {
  public:
    // Throws Error(invalid_argument, message_too_large) where check() refuses the request.
    WqeImage(SendRing& queue, const WorkRequest& request);

    std::uint32_t blocks() const noexcept { return shape_.blocks(); }
    const std::uint64_t* words() const noexcept { return words_.get(); }

    // Each refuses (invalid_argument) what the request does not have.
    Errc set_remote_address(std::uint64_t address) noexcept {
        if (!remote_ || (address & address_mask_) != 0) {
            return Errc::invalid_argument;
        }
        words_[2] = be64(address).raw();
        return Errc::ok;
    }
    Errc set_remote_key(std::uint32_t key) noexcept {
        if (!remote_) return Errc::invalid_argument;
        words_[3] = word(be32(key), be32(0));
        return Errc::ok;
    }
    Errc set_immediate(std::uint32_t immediate) noexcept {
        if (!takes_immediate(opcode_)) return Errc::invalid_argument;
        words_[1] = (words_[1] & 0xffffffff) | std::uint64_t{be32(immediate).raw()} << 32;
        return Errc::ok;
    }
    // Of a datagram: another peer, or another way to it.
    Errc set_target(const DatagramTarget& target) noexcept;
    // Of a send that invalidates the peer's key, or of a local invalidation.
    Errc set_invalidated_key(std::uint32_t key) noexcept {
        if (opcode_ != Opcode::send_invalidate && opcode_ != Opcode::local_invalidate)
            return Errc::invalid_argument;
        words_[1] = (words_[1] & 0xffffffff) | std::uint64_t{be32(key).raw()} << 32;
        return Errc::ok;
    }
    // compare_swap: both; fetch_add: the addend (`compare` is not looked at). Masks stay.
    Errc set_operands(std::uint64_t swap_or_add, std::uint64_t compare) noexcept {
        if (atomic_bytes_ == 0) return Errc::invalid_argument;
        operands_.swap_or_add = swap_or_add;
        operands_.compare = compare;
        if (is_masked_atomic(opcode_)) return write_operands();
        words_[4] = be64(swap_or_add).raw();
        words_[5] = compare_word(opcode_, compare);
        return Errc::ok;
    }
    // masked_compare_swap: what is compared and what is swapped.
    Errc set_masks(std::uint64_t compare_mask, std::uint64_t swap_mask) noexcept {
        if (opcode_ != Opcode::masked_compare_swap) return Errc::invalid_argument;
        operands_.compare_mask = compare_mask;
        operands_.swap_mask = swap_mask;
        return write_operands();
    }
    // masked_fetch_add: highest bits of the fields.
    Errc set_field_ends(std::uint64_t field_ends) noexcept {
        if (opcode_ != Opcode::masked_fetch_add) return Errc::invalid_argument;
        operands_.field_ends = field_ends;
        return write_operands();
    }
    Errc set_element(std::size_t index, const Element& element) noexcept {
        if (!takes_element(index, element)) return Errc::invalid_argument;
        std::uint64_t* at = segment(index);
        at[0] = element_word(element);
        at[1] = be64(element.address).raw();
        return Errc::ok;
    }
    bool takes_element(std::size_t index, const Element& element) const noexcept {
        return index < elements_ && element.bytes != 0 && element.bytes <= kMaxElementBytes &&
               (atomic_bytes_ == 0 || element.bytes == atomic_bytes_);
    }
    // As many bytes as were prepared.
    Errc set_inline_payload(std::span<const std::byte> bytes) noexcept {
        if (bytes.size() != inline_bytes_ || bytes.empty()) return Errc::invalid_argument;
        // Header and padding are there already.
        std::memcpy(reinterpret_cast<std::byte*>(payload()) + sizeof(InlineHeader), bytes.data(),
                    bytes.size());
        return Errc::ok;
    }
    void set_signaled(bool on) noexcept { set_flag(kCompletionAlways, on); }
    void set_fence(bool on) noexcept { set_flag(kFence, on); }

    // The local key an element names now.
    std::uint32_t local_key(std::size_t index) const noexcept {
        return be32::from_raw(static_cast<std::uint32_t>(*segment(index) >> 32)).native();
    }
    std::size_t elements() const noexcept { return elements_; }

  private:
    std::uint64_t* payload() const noexcept {
        return words_.get() + std::size_t{shape_.payload_unit} * 2;
    }
    Errc write_operands() noexcept;
    // Elements follow the inline payload.
    std::uint64_t* segment(std::size_t index) const noexcept {
        return payload() + (inline_units(inline_bytes_) + index) * 2;
    }
    void set_flag(std::uint8_t flag, bool on) noexcept {
        const std::uint64_t bit = flags_word(flag, 0);
        words_[1] = on ? words_[1] | bit : words_[1] & ~bit;
    }

    std::unique_ptr<std::uint64_t[]> words_;
    WqeShape shape_;
    Opcode opcode_;  // an atomic of 4 bytes is a masked one here
    std::uint32_t elements_;
    std::uint32_t inline_bytes_;
    std::uint32_t atomic_bytes_ = 0;  // 0: no atomic
    std::uint64_t address_mask_ = 0;  // bits that a remote address must not have
    bool remote_;                     // names remote memory
    AtomicOperands operands_;
};

}  // namespace verbatim::mlx5
