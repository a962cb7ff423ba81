// Prepared operations of a shape known at compile time: composed in registers, copied to the ring
// and from there, never read again, to the register. For WQEs of one or two blocks the fastest way
// to post; longer ones are cheaper in place (prebuilt_queue.hpp). Threads: those of the queue.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <type_traits>
#include <utility>

#include <verbatim/mlx5/fixed_shape.hpp>
#include <verbatim/mlx5/prepared_binding.hpp>
#include <verbatim/mlx5/wqe_image.hpp>

namespace verbatim::mlx5 {

// Example: PreparedFixed<Opcode::write, Inline<64>> write(queue, {.opcode = Opcode::write, ...});
//          write.post(id, remote_address, payload);
template <Opcode kOpcode, class Payload>
class PreparedFixed {
    using Shape = FixedShape<kOpcode, Payload>;

  public:
    // The request's spans are read during the call only. Throws Error(invalid_argument) where it
    // has another shape, and as WqeImage and PreparedBinding do.
    PreparedFixed(SendQueue& queue, const WorkRequest& request, NamedRegions regions = {})
        : binding_(queue, regions) {
        Shape::require(request, queue.limits().transport, queue.number());
        const WqeImage encoded(queue, request);
        std::copy_n(encoded.words(), std::size(image_.words), image_.words);
        // Payload is put between zeros.
        constexpr std::size_t kPayload = Shape::kPayloadUnit * 2;
        if constexpr (Payload::kInlineBytes != 0) {
            image_.words[kPayload] &= 0xffffffff;  // leaves the header
            std::fill(image_.words + kPayload + 1, std::end(image_.words), 0);
        }
    }

    // Posts with this remote address and payload (see Inline, Gather). Errors: invalid_prepared,
    // would_block.
    template <class Variable>
    [[gnu::always_inline]] Errc post(
        std::uint64_t id, std::uint64_t remote_address,
        Variable&& payload) noexcept requires Shape::kNamesRemoteMemory {
        return post_made(id, remote_address, payload);
    }
    // A send has no remote address.
    template <class Variable>
    [[gnu::always_inline]] Errc post(std::uint64_t id, Variable&& payload) noexcept
        requires(!Shape::kNamesRemoteMemory) {
        return post_made(id, 0, payload);
    }

    // Posts `count` of them under one doorbell, or none: `next(i)` returns the i-th, a Listed with
    // a payload as above. Their ids are first_id, first_id + 1, ...; only the last one is signaled,
    // if this operation is. Errors: invalid_prepared, would_block, message_too_large (more than the
    // queue has blocks).
    template <class Next>
    [[gnu::always_inline]] Errc post_list(std::uint64_t first_id, std::uint32_t count,
                                          Next&& next) noexcept {
        if constexpr (Payload::kElements != 0)
            if (!binding_.check()) [[unlikely]]
                return Errc::invalid_prepared;
        const Errc error = post_alike(first_id, count, next, kConstantUnits);
        if (error == Errc::ok) [[likely]]
            return error;
        return binding_.refusal(error);
    }

    void set_remote_key(std::uint32_t key) noexcept requires Shape::kNamesRemoteMemory {
        image_.words[3] = word(be32(key), be32(0));
    }
    void set_signaled(bool on) noexcept {
        const std::uint64_t bit = flags_word(kCompletionAlways, 0);
        image_.words[1] = on ? image_.words[1] | bit : image_.words[1] & ~bit;
    }

    // False for good once the queue was reset or a named region released.
    bool valid() const noexcept { return binding_.valid(); }

  private:
    template <class Variable>
    [[gnu::always_inline]] Units<Shape::kUnits> make(std::uint64_t remote_address,
                                                     Variable&& payload) const noexcept {
        Units<Shape::kUnits> wqe(image_);
        const std::uint64_t address = be64(remote_address).raw();
        if constexpr (Shape::kNamesRemoteMemory && Payload::kInlineBytes == 8) {
            wqe.set_address_and_payload(address, payload);
        } else {
            if constexpr (Shape::kNamesRemoteMemory) wqe.template set_word<2>(address);
            Payload::template compose<Shape::kPayloadUnit>(wqe, payload);
        }
        return wqe;
    }
    // What a request of a list starts as, before what changes is put into it.
    using ConstantUnits = std::make_index_sequence<Shape::kPayloadUnit + Payload::kConstantUnits>;
    static constexpr ConstantUnits kConstantUnits{};

    // Copies of the constant units stay in registers, if they are few.
    template <class Next, std::size_t... kUnit>
    [[gnu::always_inline]] Errc post_alike(std::uint64_t first_id, std::uint32_t count, Next& next,
                                           std::index_sequence<kUnit...>) noexcept {
        const auto* const units = reinterpret_cast<const __m128i*>(image_.words);
        const __m128i signaled = _mm_set_epi64x(flags_word(kCompletionAlways, 0), 0);
        const __m128i constant[] = {
            (kUnit == 0 ? _mm_andnot_si128(signaled, units[kUnit]) : units[kUnit])...};
        const auto place = [&](std::byte* at, std::uint64_t first, std::uint32_t i) {
            auto* const to = reinterpret_cast<__m128i*>(at);
            (_mm_store_si128(to + kUnit, constant[kUnit]), ...);
            std::memcpy(at, &first, sizeof first);
            const auto item = next(i);
            Shape::patch(at, item.remote_address, item.payload);
        };
        return binding_.queue().template post_alike<Shape::kBlocks>(
            {first_id, count, image_.words[0], image_.words[1]}, place);
    }
    template <class Variable>
    [[gnu::always_inline]] Errc post_made(std::uint64_t id, std::uint64_t remote_address,
                                          Variable&& payload) noexcept {
        if constexpr (Payload::kElements != 0)
            if (!binding_.unchanged()) [[unlikely]]
                return post_slowly<std::decay_t<Variable>>(id, remote_address, payload);
        SendQueue& queue = binding_.queue();
        if (!queue.template takes_units<Shape::kBlocks>()) [[unlikely]]
            return post_slowly<std::decay_t<Variable>>(id, remote_address, payload);
        queue.post_units(id, make(remote_address, payload));
        return Errc::ok;
    }
    // Whatever is unusual. By value, so that the caller's variables stay in their registers; a call
    // that ends the post, so that it need not keep them for afterwards.
    template <class Variable>
    [[gnu::noinline, gnu::cold]] Errc post_slowly(std::uint64_t id, std::uint64_t remote_address,
                                                  Variable payload) noexcept {
        if constexpr (Payload::kElements != 0)
            if (!binding_.check()) return Errc::invalid_prepared;
        UnitImage<Shape::kUnits> image;
        make(remote_address, payload).store(reinterpret_cast<std::byte*>(image.words));
        const Errc error = binding_.queue().post_image(id, image.words, Shape::kBlocks);
        return error == Errc::ok ? error : binding_.refusal(error);
    }

    UnitImage<Shape::kUnits> image_;
    PreparedBinding binding_;
};

}  // namespace verbatim::mlx5
