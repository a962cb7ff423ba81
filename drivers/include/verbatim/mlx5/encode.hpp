// The encoder turns work requests into send WQEs: check once, measure, then write segment after
// segment. It serves posts into the ring and prepared images, so the two cannot differ. Source:
// PRM, "Send Request (WQE) Formats". No state, no allocation; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// -- Which segments an opcode has --

constexpr bool is_plain_atomic(Opcode opcode) noexcept {
    return opcode == Opcode::compare_swap || opcode == Opcode::fetch_add;
}
constexpr bool is_masked_atomic(Opcode opcode) noexcept {
    return opcode == Opcode::masked_compare_swap || opcode == Opcode::masked_fetch_add;
}
constexpr bool is_atomic(Opcode opcode) noexcept {
    return is_plain_atomic(opcode) || is_masked_atomic(opcode);
}
constexpr bool is_write(Opcode opcode) noexcept {
    return opcode == Opcode::write || opcode == Opcode::write_immediate;
}
constexpr bool is_send(Opcode opcode) noexcept {
    return opcode == Opcode::send || opcode == Opcode::send_immediate ||
           opcode == Opcode::send_invalidate;
}
// Changes a memory key of this side. Requests behind it wait for it (kSmallFence).
constexpr bool is_key_update(Opcode opcode) noexcept {
    return opcode == Opcode::local_invalidate || opcode == Opcode::bind_window;
}
// The opcode of a posted key update: only invalidation checks the key's owner.
constexpr Opcode key_update_opcode(const KeyUpdateSegment& update) noexcept {
    return (update.flags & kUpdateCheckQueuePair) != 0 ? Opcode::local_invalidate
                                                       : Opcode::bind_window;
}
constexpr std::uint8_t wire_opcode(Opcode opcode) noexcept {
    return static_cast<std::uint8_t>(is_key_update(opcode) ? Opcode::local_invalidate : opcode);
}
constexpr bool names_remote_memory(Opcode opcode) noexcept {
    return is_write(opcode) || opcode == Opcode::read || is_atomic(opcode);
}
// Shaped otherwise than all others, and rare: masked atomics and key updates.
constexpr bool is_special(Opcode opcode) noexcept { return opcode >= Opcode::masked_compare_swap; }
constexpr bool takes_immediate(Opcode opcode) noexcept {
    return opcode == Opcode::write_immediate || opcode == Opcode::send_immediate;
}
constexpr bool takes_inline_payload(Opcode opcode) noexcept {
    return is_write(opcode) || is_send(opcode);
}

// The limits of a queue; the device's answer at creation.
struct SendLimits {
    std::uint32_t max_inline_bytes = 0;
    std::uint32_t max_elements = 0;
    bool masked_atomics = false;
    bool atomics = true;
    std::uint32_t big_endian_results = 4;  // as QueuePairView has it
};

// Where a WQE's parts lie, in 16-byte units from its start.
struct WqeShape {
    std::uint32_t payload_unit = 1;  // first data segment, or the inline header
    std::uint32_t units = 1;         // all of it: the control segment's ds

    constexpr std::uint32_t blocks() const noexcept { return blocks_for_units(units); }
};

constexpr std::uint32_t inline_units(std::size_t bytes) noexcept {
    if (bytes == 0) return 0;
    return static_cast<std::uint32_t>((sizeof(InlineHeader) + bytes + kUnitBytes - 1) / kUnitBytes);
}

inline constexpr std::uint32_t kKeyUpdateUnits =
    (sizeof(ControlSegment) + sizeof(KeyUpdateSegment) + sizeof(KeySegment)) / kUnitBytes;

constexpr bool names_memory_plainly(Opcode opcode) noexcept {
    return is_write(opcode) || opcode == Opcode::read || is_plain_atomic(opcode);
}

// Atomics that travel as masked ones: those, and the others of 4 bytes.
constexpr bool travels_masked(const WorkRequest& request) noexcept {
    if (!is_atomic(request.opcode)) [[likely]]
        return false;
    return is_masked_atomic(request.opcode) ||
           (request.elements.size() == 1 && request.elements[0].bytes == sizeof(std::uint32_t));
}
constexpr Opcode masked_opcode(Opcode opcode) noexcept {
    const bool swaps = opcode == Opcode::compare_swap || opcode == Opcode::masked_compare_swap;
    return swaps ? Opcode::masked_compare_swap : Opcode::masked_fetch_add;
}
constexpr std::uint32_t masked_operand_units(Opcode masked, std::uint32_t bytes) noexcept {
    return masked == Opcode::masked_compare_swap && bytes == sizeof(std::uint64_t) ? 2 : 1;
}

// "Plain": of every request but special ones, and atomics of 4 bytes.
constexpr WqeShape plain_shape_of(const WorkRequest& request) noexcept {
    WqeShape shape;
    if (names_memory_plainly(request.opcode)) ++shape.payload_unit;
    if (is_plain_atomic(request.opcode)) ++shape.payload_unit;
    shape.units = shape.payload_unit + static_cast<std::uint32_t>(request.elements.size()) +
                  inline_units(request.inline_payload.size());
    return shape;
}

// Of special requests, and of atomics of 4 bytes. Cold, and not inline: it adds one comparison to
// every post.
WqeShape special_shape_of(const WorkRequest& request) noexcept;

inline WqeShape shape_of(const WorkRequest& request) noexcept {
    if (is_special(request.opcode) || travels_masked(request)) [[unlikely]]
        return special_shape_of(request);
    return plain_shape_of(request);
}

// Refuses elements that a device would misread, and lists that no message can hold.
constexpr Errc check_elements(std::span<const Element> elements, std::uint32_t limit) noexcept {
    if (elements.size() > limit) return Errc::invalid_argument;
    std::uint64_t total = 0;
    for (const Element& element : elements) {
        if (element.bytes == 0) return Errc::invalid_argument;
        total += element.bytes;
    }
    return total > kMaxElementBytes ? Errc::message_too_large : Errc::ok;
}

// Plain atomics work on exactly eight aligned bytes, and return as many.
constexpr Errc check_atomic(const WorkRequest& request) noexcept {
    const bool fits = request.elements.size() == 1 && request.elements[0].bytes == 8 &&
                      request.remote_address % 8 == 0;
    return fits ? Errc::ok : Errc::invalid_argument;
}

// Of special requests, and of atomics of 4 bytes. Cold.
Errc check_special(const WorkRequest& request, const SendLimits& limits) noexcept;

// Tests whether a queue with these limits can ever take the request. Errors: invalid_argument (it
// contradicts itself or the limits), message_too_large (inline payload or total).
constexpr Errc check_plain(const WorkRequest& request, const SendLimits& limits) noexcept {
    const Opcode opcode = request.opcode;
    if (!takes_inline_payload(opcode) && !names_memory_plainly(opcode) && opcode != Opcode::nop) {
        return Errc::invalid_argument;
    }
    if (!request.inline_payload.empty()) {
        if (!takes_inline_payload(opcode)) return Errc::invalid_argument;
        if (request.inline_payload.size() > limits.max_inline_bytes) return Errc::message_too_large;
        if (request.elements.empty()) return Errc::ok;
    }
    if (opcode == Opcode::nop) return request.elements.empty() ? Errc::ok : Errc::invalid_argument;
    if (const Errc error = check_elements(request.elements, limits.max_elements);
        error != Errc::ok) {
        return error;
    }
    // Each limit alone keeps a WQE small enough, both together do not.
    if (!request.inline_payload.empty() && plain_shape_of(request).units > kMaxWqeUnits)
        return Errc::message_too_large;
    return is_plain_atomic(opcode) ? check_atomic(request) : Errc::ok;
}

// True if its result arrives in big endian, and is swapped when the request retires.
constexpr bool returns_big_endian(const WorkRequest& request, const SendLimits& limits) noexcept {
    return is_atomic(request.opcode) && request.elements.size() == 1 &&
           (limits.big_endian_results & request.elements[0].bytes) != 0;
}

// Errors: as check_plain(), and unsupported (atomics where the device has none such).
inline Errc check(const WorkRequest& request, const SendLimits& limits) noexcept {
    if (is_special(request.opcode) || travels_masked(request)) [[unlikely]]
        return check_special(request, limits);
    if (is_plain_atomic(request.opcode) && !limits.atomics) [[unlikely]]
        return Errc::unsupported;
    return check_plain(request, limits);
}

// -- Words: segments as pairs of 64-bit words in memory order. Stores of 8 bytes can be read back
// by 8-byte loads without a store-forwarding stall; the doorbell does that a few cycles later. --

constexpr std::uint64_t word(be32 first, be32 second) noexcept {
    static_assert(std::endian::native == std::endian::little,
                  "words are composed for little endian");
    return first.raw() | (std::uint64_t{second.raw()} << 32);
}

// First word of a control segment: modifier 0, counter, opcode, queue pair number, units.
constexpr std::uint64_t control_word(Opcode opcode, std::uint32_t index, std::uint32_t number,
                                     std::uint32_t units) noexcept {
    return word(be32((index & 0xffff) << 8 | wire_opcode(opcode)), be32(number << 8 | units));
}
// Second word: flags and immediate.
constexpr std::uint64_t flags_word(std::uint32_t flags, std::uint32_t immediate) noexcept {
    return word(be32(flags), be32(immediate));
}
constexpr std::uint8_t flags_of(const WorkRequest& request) noexcept {
    return static_cast<std::uint8_t>((request.signaled ? kCompletionAlways : 0) |
                                     (request.fence ? kFence : 0) |
                                     (request.solicited ? kSolicited : 0));
}
// Last word of a control segment.
constexpr std::uint32_t plain_immediate_of(const WorkRequest& request) noexcept {
    if (takes_immediate(request.opcode)) return request.immediate;
    return request.opcode == Opcode::send_invalidate ? request.invalidated_key : 0;
}
constexpr std::uint64_t element_word(const Element& element) noexcept {
    return word(be32(element.bytes & (kMaxElementBytes - 1)), be32(element.local_key));
}
// A fetch-and-add compares nothing: zero, for any value in the request.
constexpr std::uint64_t compare_word(Opcode opcode, std::uint64_t compare) noexcept {
    return opcode == Opcode::compare_swap ? be64(compare).raw() : 0;
}
constexpr be32 inline_header(std::size_t bytes) noexcept {
    return be32(kInlineFlag | static_cast<std::uint32_t>(bytes));
}

// Writes 16-byte units one after the other, where the ring does not end.
class UnitWriter {
  public:
    explicit UnitWriter(std::byte* at) noexcept : at_(at) {}

    void put(std::uint64_t first, std::uint64_t second) noexcept {
        std::memcpy(at_, &first, sizeof first);
        std::memcpy(at_ + sizeof first, &second, sizeof second);
        at_ += kUnitBytes;
    }
    // Inline header, payload, zeros up to the next unit.
    void put_inline(std::span<const std::byte> payload) noexcept {
        const std::uint32_t header = inline_header(payload.size()).raw();
        if (payload.size() == sizeof(std::uint64_t)) {  // the commonest size: no call
            std::uint64_t value;
            std::memcpy(&value, payload.data(), sizeof value);
            put(header | value << 32, value >> 32);
            return;
        }
        std::byte* const end = at_ + std::size_t{inline_units(payload.size())} * kUnitBytes;
        std::memset(end - kUnitBytes, 0, kUnitBytes);  // the padding is in there
        std::memcpy(at_, &header, sizeof header);
        std::memcpy(at_ + sizeof header, payload.data(), payload.size());
        at_ = end;
    }

  private:
    std::byte* at_;
};

// Writes 16-byte units one after the other and starts again at `begin` where the ring ends.
class UnitCursor {
  public:
    UnitCursor(std::byte* at, std::byte* begin, std::byte* end) noexcept
        : at_(at), begin_(begin), end_(end) {}

    void put(std::uint64_t first, std::uint64_t second) noexcept {
        std::memcpy(at_, &first, sizeof first);
        std::memcpy(at_ + sizeof first, &second, sizeof second);
        advance(kUnitBytes);
    }

    // Inline header, payload, zeros up to the next unit.
    void put_inline(std::span<const std::byte> payload) noexcept {
        const be32 header = inline_header(payload.size());
        const std::size_t padding =
            inline_units(payload.size()) * kUnitBytes - sizeof header - payload.size();
        copy(std::as_bytes(std::span(&header, 1)));
        copy(payload);
        std::memset(at_, 0, padding);  // within the last unit
        advance(padding);
    }

  private:
    void copy(std::span<const std::byte> bytes) noexcept {
        const std::size_t room = static_cast<std::size_t>(end_ - at_);
        const std::size_t now = std::min(room, bytes.size());
        std::memcpy(at_, bytes.data(), now);
        advance(now);
        if (now == bytes.size()) return;
        std::memcpy(at_, bytes.data() + now, bytes.size() - now);
        advance(bytes.size() - now);
    }
    void advance(std::size_t bytes) noexcept {
        at_ += bytes;
        if (at_ == end_) at_ = begin_;
    }

    std::byte* at_;
    std::byte* begin_;
    std::byte* end_;
};

// Writes the data segments of a receive entry, ended where they are fewer than `to` has room for.
inline void encode_receive(std::span<std::byte> to, std::span<const Element> elements) noexcept {
    UnitCursor cursor(to.data(), to.data(), to.data() + to.size());
    for (const Element& element : elements) {
        cursor.put(element_word(element), be64(element.address).raw());
    }
    if (elements.size() < to.size() / kUnitBytes) {
        cursor.put(word(be32(0), be32(kInvalidKey)), 0);
    }
}

// The posting queue pair: goes into every control segment.
struct WqePosition {
    std::uint32_t number = 0;        // queue pair
    std::uint32_t index = 0;         // counter of the first block
    std::uint8_t pending_fence = 0;  // kSmallFence behind a key update, else 0
};

template <class Cursor>
void put_payload(const WorkRequest& request, Cursor& to) noexcept {
    if (!request.inline_payload.empty()) to.put_inline(request.inline_payload);
    for (const Element& element : request.elements) {
        to.put(element_word(element), be64(element.address).raw());
    }
}

// A checked special request, or an atomic of 4 bytes. Cold.
std::uint64_t encode_special(const WorkRequest& request, const WqeShape& shape,
                             WqePosition position, UnitCursor to) noexcept;

// Writes a checked request, by UnitWriter or UnitCursor. Returns the first word of its control
// segment, which a doorbell repeats.
template <class Cursor>
std::uint64_t encode_plain(const WorkRequest& request, const WqeShape& shape, WqePosition position,
                           Cursor to) noexcept {
    const std::uint64_t first =
        control_word(request.opcode, position.index, position.number, shape.units);
    const std::uint8_t fence = request.fence ? std::uint8_t{0} : position.pending_fence;
    to.put(first, flags_word(flags_of(request) | fence, plain_immediate_of(request)));
    if (names_memory_plainly(request.opcode)) {
        to.put(be64(request.remote_address).raw(), word(be32(request.remote_key), be32(0)));
    }
    if (is_plain_atomic(request.opcode)) {
        to.put(be64(request.swap_or_add).raw(), compare_word(request.opcode, request.compare));
    }
    put_payload(request, to);
    return first;
}

inline std::uint64_t encode(const WorkRequest& request, const WqeShape& shape, WqePosition position,
                            UnitCursor to) noexcept {
    if (is_special(request.opcode) || travels_masked(request)) [[unlikely]]
        return encode_special(request, shape, position, to);
    return encode_plain(request, shape, position, to);
}

}  // namespace verbatim::mlx5
