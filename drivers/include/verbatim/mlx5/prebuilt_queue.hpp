// A prebuilt queue keeps a prepared operation in every slot of a send queue of its own. A post
// patches the changes in place and writes an 8-byte doorbell. So no image is copied, neither to the
// ring nor to the register. For a queue pair with one kind of request: a stream of reads with the
// same ten elements, of counters, of ring records.
//
// Slots are a power of two of blocks, so that they fall on the same blocks in every lap. No-ops
// fill the rest of a slot. They cost the device a moment, complete only in a flush, and are not
// reported. docs/development.md compares the copy strategies. Threads: one at a time, the same that
// polls the completion queue it is attached to.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/prepared_binding.hpp>
#include <verbatim/mlx5/prepared_image.hpp>
#include <verbatim/mlx5/send_ring.hpp>

namespace verbatim::mlx5 {

// The part that does not depend on the shape.
class PrebuiltRing : public SendRing {
  public:
    // Forgets everything outstanding and starts at block 0, with all slots made again. Call it
    // together with QueuePairHandle::reset() and CompletionQueue::discard().
    void reset() noexcept;
    // False for good once a named region was released, or the operation was.
    bool valid() const noexcept { return !released_ && regions_.all_alive(); }
    // Ends posting; outstanding requests complete.
    void release() noexcept;

  protected:
    // Throws Error as SendQueue and RegionWatch do, and Error(invalid_argument) where the queue has
    // less than one slot.
    PrebuiltRing(const QueuePairView& view, std::uint32_t wqe_blocks, NamedRegions regions,
                 const volatile std::uint64_t* invalidation_epoch);
    ~PrebuiltRing() = default;

    // Writes the image, which stays, into all slots.
    void fill(const std::uint64_t* image) noexcept;
    // True while regions and operation exist.
    bool usable() noexcept { return regions_.check() && !released_; }

    RegionWatch regions_;

  private:
    const std::uint64_t* image_ = nullptr;
    bool released_ = false;
};

// Example: PrebuiltQueue<Opcode::read, Gather<10>> reads(view, request, regions, epoch);
//          reads.post(id, remote_address, [&](std::uint32_t i) { return address_of(i); });
template <Opcode kOpcode, class Payload>
class PrebuiltQueue : public PrebuiltRing {
    using Image = PreparedImage<kOpcode, Payload>;
    using Shape = typename Image::Shape;
    static constexpr std::uint32_t kSlotBlocks = std::bit_ceil(Shape::kBlocks);
    static constexpr std::uint32_t kFillers = kSlotBlocks - Shape::kBlocks;
    static constexpr std::size_t kFillerBytes = kFillers * kBlockBytes;

  public:
    // `request` has the constant parts; its spans are read during the call only.
    // `invalidation_epoch`: Device::invalidation_epoch(), needed where regions are named. Throws as
    // PrebuiltRing and encode_image() do.
    PrebuiltQueue(const QueuePairView& view, const WorkRequest& request, NamedRegions regions = {},
                  const volatile std::uint64_t* invalidation_epoch = nullptr)
        : PrebuiltRing(view, Shape::kBlocks, regions, invalidation_epoch), image_(*this, request) {
        fill(image_.units().words);
    }

    // Posts with this remote address and payload (fixed_shape.hpp), as a Prepared does; but keys
    // and lengths stay, since they are in every slot. Errors: invalid_prepared (a region is gone,
    // or this was released), would_block.
    template <class Variable>
    [[gnu::always_inline]] Errc post(
        std::uint64_t id, std::uint64_t remote_address,
        Variable&& payload) noexcept requires Shape::kNamesRemoteMemory {
        return post_made(id, remote_address, payload);
    }
    // A send names none.
    template <class Variable>
    [[gnu::always_inline]] Errc post(std::uint64_t id, Variable&& payload) noexcept
        requires(!Shape::kNamesRemoteMemory) {
        return post_made(id, 0, payload);
    }

    // Posts `count` of them under one doorbell, or none: as Prepared::post_list().
    template <class Next>
    [[gnu::always_inline]] Errc post_list(std::uint64_t first_id, std::uint32_t count,
                                          Next&& next) noexcept {
        if (!usable()) [[unlikely]]
            return Errc::invalid_prepared;
        if (const Errc error = admit(std::uint64_t{count} * kSlotBlocks); error != Errc::ok)
            [[unlikely]]
            return error;
        if (count == 0) return Errc::ok;
        Last last{};
        for (std::uint32_t done = 0; done != count;) {
            const bool runs = window_.admits<kSlotBlocks>() || open_window(kSlotBlocks);
            const std::uint32_t end =
                done + (runs ? std::min(count - done, window_.blocks() / kSlotBlocks) : 1);
            if (!runs) close_window();
            const PostWindow::Place start = window_.place();
            last = fill_slots(start, first_id, {done, end}, next);
            if (runs) [[likely]]
                window_.take(start, (end - done) * kSlotBlocks);
            else
                step_over(kSlotBlocks);
            done = end;
        }
        std::memcpy(last.wqe + sizeof control_[0], &control_[1], sizeof control_[1]);  // for all
        ring_doorbell(bell_, window_.record(), DoorbellWordOnly{last.control});
        return Errc::ok;
    }

    // Setters for all later posts. The rest is in every slot.
    void set_immediate(std::uint32_t immediate) noexcept requires(takes_immediate(kOpcode)) {
        image_.set_immediate(immediate);
        control_[1] = image_.flags_word();
    }
    void set_signaled(bool on) noexcept {
        image_.set_signaled(on);
        control_[1] = image_.flags_word();
    }
    void set_fence(bool on) noexcept {
        image_.set_fence(on);
        control_[1] = image_.flags_word();
    }

  private:
    struct Run {
        std::uint32_t first, end;
    };
    // Of the request made last.
    struct Last {
        std::byte* wqe;
        __m128i control;
    };
    __m128i control() const noexcept {
        return _mm_load_si128(reinterpret_cast<const __m128i*>(control_));
    }
    // Makes requests of a list, unsignaled, in contiguous slots.
    template <class Next>
    [[gnu::always_inline]] Last fill_slots(const PostWindow::Place& start, std::uint64_t first_id,
                                           Run run, Next& next) noexcept {
        const __m128i constant = _mm_andnot_si128(_mm_set_epi64x(Image::kSignaled, 0), control());
        // Of the index's low byte, which does not carry here.
        const __m128i further = _mm_cvtsi32_si128(kSlotBlocks << 16);
        std::byte* wqe = start.block + kFillerBytes;
        std::uint64_t* id = start.id + kFillers;
        __m128i index = window_.index_unit(), made{};
        for (std::uint32_t i = run.first; i != run.end; ++i) {
            made = begin_slot(wqe, constant, index);
            const auto item = next(i);
            static_assert(std::is_same_v<std::decay_t<decltype(item.remote)>, std::uint64_t> &&
                          !Payload::template kReplaces<std::decay_t<decltype(item.payload)>>);
            Shape::patch(wqe, item.remote, item.payload);
            __atomic_store_n(id, first_id + i, __ATOMIC_RELAXED);
            wqe += kSlotBlocks * kBlockBytes;
            id += kSlotBlocks;
            index = _mm_add_epi32(index, further);
        }
        return {wqe - kSlotBlocks * kBlockBytes, made};
    }
    // Writes the parts that every request of a slot changes, in the fillers before it too. Returns
    // its control segment. `index`: of the slot's first block, which has zeros where the numbers of
    // a slot's blocks go.
    [[gnu::always_inline]] static __m128i begin_slot(std::byte* wqe, __m128i constant,
                                                     __m128i index) noexcept {
        for (std::uint32_t i = 0; i < kFillers; ++i) {
            // And opcode 0, a no-op.
            const __m128i bits = _mm_or_si128(index, _mm_cvtsi32_si128(index_bits_of(i)));
            const float word = _mm_cvtss_f32(_mm_castsi128_ps(i == 0 ? index : bits));
            std::memcpy(wqe - kFillerBytes + i * kBlockBytes, &word, sizeof word);
        }
        const __m128i made = _mm_or_si128(constant, index);
        _mm_store_si128(reinterpret_cast<__m128i*>(wqe), made);
        return made;
    }
    static constexpr std::int32_t index_bits_of(std::uint32_t block) noexcept {
        return static_cast<std::int32_t>(index_bits(block));
    }
    template <class Variable>
    [[gnu::always_inline]] Errc post_made(std::uint64_t id, std::uint64_t remote,
                                          Variable&& payload) noexcept {
        if constexpr (Shape::kNamesRegions)
            if (!regions_.unchanged()) [[unlikely]]
                return post_slowly<std::decay_t<Variable>>(id, remote, payload);
        if (!window_.admits<kSlotBlocks>()) [[unlikely]]
            return post_slowly<std::decay_t<Variable>>(id, remote, payload);
        const PostWindow::Place at = window_.place();
        const __m128i made = patch_slot(at, id, remote, payload);
        ring_doorbell(bell_, window_.take(at, kSlotBlocks), DoorbellWordOnly{made});
        return Errc::ok;
    }
    // By value, and a call that ends the post: the caller's variables stay in registers.
    template <class Variable>
    [[gnu::noinline]] Errc post_slowly(std::uint64_t id, std::uint64_t remote,
                                       Variable payload) noexcept {
        if (!usable()) return Errc::invalid_prepared;
        if (const Errc error = admit(kSlotBlocks); error != Errc::ok) return error;
        const bool opened = !window_.carries(kSlotBlocks) && open_window(kSlotBlocks);
        if (!opened) close_window();
        const PostWindow::Place at = window_.place();
        const __m128i made = patch_slot(at, id, remote, payload);
        const std::uint32_t record =
            opened ? window_.take(at, kSlotBlocks) : step_over(kSlotBlocks);
        ring_doorbell(bell_, record, DoorbellWordOnly{made});
        return Errc::ok;
    }
    template <class Variable>
    [[gnu::always_inline]] __m128i patch_slot(const PostWindow::Place& at, std::uint64_t id,
                                              std::uint64_t remote, Variable&& payload) noexcept {
        static_assert(!Payload::template kReplaces<std::decay_t<Variable>>);
        std::byte* const wqe = at.block + kFillerBytes;
        const __m128i made = begin_slot(wqe, control(), window_.index_unit());
        Shape::patch(wqe, remote, payload);
        at.id[kFillers] = id;
        return made;
    }

    Image image_;
    // Control segment of the request in slot 0.
    alignas(16) std::uint64_t control_[2] = {image_.first_word() | index_bits(kFillers),
                                             image_.flags_word()};
};

}  // namespace verbatim::mlx5
