// A prepared image holds a work request of a fixed shape, encoded once with index 0, and the words
// that may change between posts. No change needs another shape: the shape is a type. Threads: one
// at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/fixed_shape.hpp>
#include <verbatim/mlx5/send_ring.hpp>
#include <verbatim/mlx5/work_request.hpp>
#include <verbatim/mlx5/wqe_units.hpp>

namespace verbatim::mlx5 {

struct ShapeFacts {
    Opcode opcode;
    std::uint32_t inline_bytes;
    std::uint32_t elements;
};
// Encodes the request into these words, index 0. Throws Error(invalid_argument,
// message_too_large) where it has another shape, or is none that the queue can ever take.
void encode_image(SendRing& queue, const WorkRequest& request, const ShapeFacts& facts,
                  std::span<std::uint64_t> words);

template <Opcode kOpcode, class Payload>
class PreparedImage {
  public:
    using Shape = FixedShape<kOpcode, Payload>;

    // The request's spans are read during the call only. Throws as encode_image().
    PreparedImage(SendRing& queue, const WorkRequest& request) {
        encode_image(queue, request, {kOpcode, Payload::kInlineBytes, Payload::kElements},
                     units_.words);
    }

    const UnitImage<Shape::kUnits>& units() const noexcept { return units_; }
    // Of the control segment, with index 0.
    std::uint64_t first_word() const noexcept { return units_.words[0]; }
    std::uint64_t flags_word() const noexcept { return units_.words[1]; }
    bool signaled() const noexcept { return (units_.words[1] & kSignaled) != 0; }
    static constexpr std::uint64_t kSignaled = mlx5::flags_word(kCompletionAlways, 0);

    // Of another queue. Word 0 has the queue's number beside the request's length.
    void set_queue(std::uint32_t number) noexcept {
        const auto low = static_cast<std::uint32_t>(units_.words[0]);
        const auto high = be32::from_raw(static_cast<std::uint32_t>(units_.words[0] >> 32));
        const be32 changed(number << 8 | (high.native() & 0xff));
        units_.words[0] = std::uint64_t{changed.raw()} << 32 | low;
    }
    void set_remote_key(std::uint32_t key) noexcept { units_.words[3] = Shape::key_word(key); }
    void set_immediate(std::uint32_t immediate) noexcept {
        units_.words[1] = (units_.words[1] & 0xffffffff) | std::uint64_t{be32(immediate).raw()}
                                                               << 32;
    }
    void set_signaled(bool on) noexcept { set_flag(kCompletionAlways, on); }
    void set_fence(bool on) noexcept { set_flag(kFence, on); }

    // The element of this number. Errors: invalid_argument (there is none, or none of this length).
    Errc set_element(std::size_t index, const Element& element) noexcept {
        constexpr bool kAtomic = is_atomic(kOpcode);
        if (index >= Payload::kElements || element.bytes == 0 || element.bytes > kMaxElementBytes ||
            (kAtomic && element.bytes != 8))
            return Errc::invalid_argument;
        std::uint64_t* const at = segment(index);
        at[0] = element_word(element);
        at[1] = be64(element.address).raw();
        return Errc::ok;
    }
    // The local key that it names.
    std::uint32_t local_key(std::size_t index) noexcept {
        return be32::from_raw(static_cast<std::uint32_t>(*segment(index) >> 32)).native();
    }

    // A WQE of it in registers.
    template <class Variable>
    [[gnu::always_inline]] Units<Shape::kUnits> make(std::uint64_t remote,
                                                     Variable&& payload) const noexcept {
        Units<Shape::kUnits> wqe(units_);
        const std::uint64_t address = be64(remote).raw();
        if constexpr (Shape::kNamesRemoteMemory && Payload::kInlineBytes == 8) {
            wqe.set_address_and_payload(address, payload);
        } else {
            if constexpr (Shape::kNamesRemoteMemory) wqe.template set_word<2>(address);
            Payload::template compose<Shape::kPayloadUnit>(wqe, payload);
        }
        return wqe;
    }
    template <class Variable>
    [[gnu::always_inline]] Units<Shape::kUnits> make(const RemoteMemory& remote,
                                                     Variable&& payload) const noexcept {
        Units<Shape::kUnits> wqe = make(remote.address, payload);
        wqe.template set_word<3>(Shape::key_word(remote.key));
        return wqe;
    }

  private:
    // Elements are the last units of the payload.
    std::uint64_t* segment(std::size_t index) noexcept {
        constexpr std::size_t kFirst =
            Shape::kPayloadUnit + Payload::kUnits - std::max(Payload::kElements, 1U);
        return units_.words + (kFirst + index) * 2;
    }
    void set_flag(std::uint8_t flag, bool on) noexcept {
        const std::uint64_t bit = mlx5::flags_word(flag, 0);
        units_.words[1] = on ? units_.words[1] | bit : units_.words[1] & ~bit;
    }

    UnitImage<Shape::kUnits> units_;
};

}  // namespace verbatim::mlx5
