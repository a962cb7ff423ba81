// A prepared operation is a work request whose shape is a type, encoded once and posted many times.
// Source: jVerbs §5.3, stateful verb calls; valid(), execute() is post(), result() its value and
// the completion, free() is release(). A post composes the WQE in registers and stores it to the
// ring and to the register; nothing is read back. For a queue pair that posts one operation only,
// prebuilt_queue.hpp keeps it in the ring, which is cheaper from three blocks on.
//
// An operation ends when its queue is reset or a memory region it names is released: posting it
// then is an error value. It may outlive its queue. Threads: those of the queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/prepared_binding.hpp>
#include <verbatim/mlx5/prepared_image.hpp>
#include <verbatim/mlx5/send_queue.hpp>

namespace verbatim::mlx5 {

// Example: Prepared<Opcode::write, Inline<64>> write(queue, {.opcode = Opcode::write, .remote_key =
//          key});
//          write.post(id, remote_address, payload);
template <Opcode kOpcode, class Payload>
class Prepared {
    using Image = PreparedImage<kOpcode, Payload>;
    using Shape = typename Image::Shape;

  public:
    // `request` has the constant parts; inline payload comes with each post and may be left out.
    // `regions`: those of its elements. Throws as encode_image() and PreparedBinding do.
    Prepared(SendQueue& queue, const WorkRequest& request, NamedRegions regions = {})
        : image_(queue, request), binding_(queue, regions, Shape::kBlocks) {}

    // Posts with this remote memory (an address, or RemoteMemory) and payload (fixed_shape.hpp).
    // Errors: invalid_prepared, would_block, message_too_large (the queue is shorter).
    template <class Variable>
    [[gnu::always_inline]] Errc post(
        std::uint64_t id, std::uint64_t remote_address,
        Variable&& payload) noexcept requires Shape::kNamesRemoteMemory {
        return post_made(id, remote_address, payload);
    }
    template <class Variable>
    [[gnu::always_inline]] Errc post(
        std::uint64_t id, const RemoteMemory& remote,
        Variable&& payload) noexcept requires Shape::kNamesRemoteMemory {
        return post_made(id, remote, payload);
    }
    // A send names none.
    template <class Variable>
    [[gnu::always_inline]] Errc post(std::uint64_t id, Variable&& payload) noexcept
        requires(!Shape::kNamesRemoteMemory) {
        return post_made(id, std::uint64_t{0}, payload);
    }

    // Posts `count` of them under one doorbell, or none: `next(i)` returns the i-th, a Listed with
    // remote memory and payload as above. Their ids are first_id, first_id + 1, ...; only the last
    // one is signaled, if this operation is. Errors as above.
    template <class Next>
    [[gnu::always_inline]] Errc post_list(std::uint64_t first_id, std::uint32_t count,
                                          Next&& next) noexcept {
        if constexpr (Shape::kNamesRegions)
            if (!binding_.check()) [[unlikely]]
                return Errc::invalid_prepared;
        if (count == 1) {  // whose bytes may go into the register
            auto&& only = next(0);
            if constexpr (Shape::kNamesRemoteMemory)
                return post(first_id, only.remote, only.payload);
            else
                return post(first_id, only.payload);
        }
        const Errc error = post_alike(first_id, count, next, kConstantUnits);
        if (error == Errc::ok) [[likely]]
            return error;
        return binding_.refusal(error);
    }

    // -- Setters for all later posts --
    void set_remote_key(std::uint32_t key) noexcept requires Shape::kNamesRemoteMemory {
        image_.set_remote_key(key);
    }
    void set_immediate(std::uint32_t immediate) noexcept requires(takes_immediate(kOpcode)) {
        image_.set_immediate(immediate);
    }
    void set_signaled(bool on) noexcept { image_.set_signaled(on); }
    void set_fence(bool on) noexcept { image_.set_fence(on); }
    // Another place within the region of element `index`. Errors: invalid_argument.
    Errc set_element(std::size_t index, std::uint64_t address, std::uint32_t bytes) noexcept
        requires(Shape::kNamesRegions) {
        if (index >= Payload::kElements) return Errc::invalid_argument;
        return image_.set_element(index, {address, bytes, image_.local_key(index)});
    }
    // In another region, which is watched from now on. Allocates nothing. Errors: invalid_argument.
    Errc set_element(std::size_t index, const Element& element, const MemoryRegion& region) noexcept
        requires(Shape::kNamesRegions) {
        if (element.local_key != region.local_key()) return Errc::invalid_argument;
        Image changed = image_;
        if (const Errc error = changed.set_element(index, element); error != Errc::ok) return error;
        const Errc error = binding_.regions().replace(index, region);
        if (error == Errc::ok) image_ = changed;
        return error;
    }

    // False for good once the queue was reset, a named region released, or this was.
    bool valid() const noexcept { return binding_.valid(); }
    // Ends the operation before its destructor does.
    void release() noexcept { binding_.release(); }
    // The same operation of another queue, valid or not before. It names regions no more: the
    // caller is responsible for the keys. Allocates nothing.
    void move_to(SendQueue& queue) noexcept {
        image_.set_queue(queue.number());
        binding_ = PreparedBinding(queue, {}, Shape::kBlocks);
    }

  private:
    // The initial state of a request of a list, before its varying parts.
    using ConstantUnits = std::make_index_sequence<Shape::kPayloadUnit + Payload::kConstantUnits>;
    static constexpr ConstantUnits kConstantUnits{};

    // Copies of the constant units stay in registers, if they are few.
    template <class Next, std::size_t... kUnit>
    [[gnu::always_inline]] Errc post_alike(std::uint64_t first_id, std::uint32_t count, Next& next,
                                           std::index_sequence<kUnit...>) noexcept {
        const auto* const units = reinterpret_cast<const __m128i*>(image_.units().words);
        const __m128i signaled = _mm_set_epi64x(Image::kSignaled, 0);
        const __m128i constant[] = {
            (kUnit == 0 ? _mm_andnot_si128(signaled, units[kUnit]) : units[kUnit])...};
        const auto place = [&](std::byte* at, __m128i index, std::uint32_t i) {
            auto* const to = reinterpret_cast<__m128i*>(at);
            ((kUnit == 0 ? void() : _mm_store_si128(to + kUnit, constant[kUnit])), ...);
            _mm_store_si128(to, index);
            const auto item = next(i);
            Shape::patch(at, item.remote, item.payload);
        };
        const std::uint8_t last = image_.signaled() ? kCompletionAlways : std::uint8_t{0};
        return binding_.queue().template post_alike<Shape::kBlocks>(
            {first_id, count, constant[0], last}, place);
    }
    template <class Remote, class Variable>
    [[gnu::always_inline]] Errc post_made(std::uint64_t id, const Remote& remote,
                                          Variable&& payload) noexcept {
        if constexpr (Shape::kNamesRegions)
            if (!binding_.regions().unchanged()) [[unlikely]]
                return post_slowly<Remote, std::decay_t<Variable>>(id, remote, payload);
        SendQueue& queue = binding_.queue();
        if (!queue.template takes_units<Shape::kBlocks>()) [[unlikely]]
            return post_slowly<Remote, std::decay_t<Variable>>(id, remote, payload);
        queue.post_units(id, image_.make(remote, payload));
        return Errc::ok;
    }
    // Unusual posts. By value, so that the caller's variables stay in their registers. A tail call,
    // so that the post need not keep them.
    template <class Remote, class Variable>
    [[gnu::noinline]] Errc post_slowly(std::uint64_t id, Remote remote, Variable payload) noexcept {
        if constexpr (Shape::kNamesRegions)
            if (!binding_.check()) return Errc::invalid_prepared;
        SendQueue& queue = binding_.queue();
        const SendQueue::Way way = queue.find_way(Shape::kBlocks);
        if (way != SendQueue::Way::by_image) {
            queue.post_units(id, image_.make(remote, payload), way == SendQueue::Way::admitted);
            return Errc::ok;
        }
        UnitImage<Shape::kUnits> made;
        image_.make(remote, payload).store(reinterpret_cast<std::byte*>(made.words));
        const Errc error = queue.post_image(id, made.words, Shape::kBlocks);
        return error == Errc::ok ? error : binding_.refusal(error);
    }

    Image image_;
    PreparedBinding binding_;
};

// Of 8 inline bytes: the fastest post there is, for counters, flags and credits.
using PreparedWrite8 = Prepared<Opcode::write, Inline<8>>;

}  // namespace verbatim::mlx5
