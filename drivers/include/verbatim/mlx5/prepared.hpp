// Prepared operations: a work request encoded once and posted many times (jVerbs §5.3: stateful
// verb calls). What may change between posts is patched into the image: addresses, keys, lengths,
// the immediate, atomic operands, inline payload of the same size. Changes that would need another
// shape are refused.
//
// An operation stops being valid when its queue was reset or a memory region it names was released;
// posting it then is an error value. It must not outlive its queue. Threads: those of the queue.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

// The regions behind a request's elements, in their order. None: the caller vouches for the keys.
using NamedRegions = std::span<const MemoryRegion* const>;

// The queue a prepared operation belongs to, and the cheap answer to "is all it names still
// there?".
class PreparedBinding {
  public:
    // Throws Error(invalid_argument): regions of a queue that does not know its device's epoch.
    PreparedBinding(SendQueue& queue, NamedRegions regions);

    SendQueue& queue() const noexcept { return *queue_; }

    // One comparison: the device's epoch and the queue's generation only grow, so their sum stands
    // still only while both do.
    [[gnu::always_inline]] bool check() noexcept {
        const std::uint64_t now =
            __atomic_load_n(queue_->invalidation_epoch(), __ATOMIC_RELAXED) + queue_->generation();
        return now == valid_at_ || recheck();
    }
    bool valid() const noexcept { return still_valid(); }

    // Watches another region for element `index` from now on. Errors: invalid_argument (none was
    // named).
    Errc replace(std::size_t index, const MemoryRegion& region) noexcept;

  private:
    using Token = std::shared_ptr<const std::atomic<bool>>;

    bool recheck() noexcept;
    bool still_valid() const noexcept;

    SendQueue* queue_;
    std::uint64_t valid_at_;
    std::uint64_t generation_;
    std::vector<Token> tokens_;
};

// An encoded request: whole blocks, index 0, and the places that may change.
class WqeImage {
  public:
    // Throws Error(invalid_argument, message_too_large) where check() refuses the request.
    WqeImage(const SendQueue& queue, const WorkRequest& request);

    std::uint32_t blocks() const noexcept { return shape_.blocks(); }
    const std::uint64_t* words() const noexcept { return words_.get(); }

    // Each refuses (invalid_argument) what the request does not have.
    Errc set_remote_address(std::uint64_t address) noexcept {
        if (!names_remote_memory(opcode_) || (is_atomic(opcode_) && address % 8 != 0)) {
            return Errc::invalid_argument;
        }
        words_[2] = be64(address).raw();
        return Errc::ok;
    }
    Errc set_remote_key(std::uint32_t key) noexcept {
        if (!names_remote_memory(opcode_)) return Errc::invalid_argument;
        words_[3] = word(be32(key), be32(0));
        return Errc::ok;
    }
    Errc set_immediate(std::uint32_t immediate) noexcept {
        if (!takes_immediate(opcode_)) return Errc::invalid_argument;
        words_[1] = (words_[1] & 0xffffffff) | std::uint64_t{be32(immediate).raw()} << 32;
        return Errc::ok;
    }
    // compare_swap: both; fetch_add: the addend (`compare` is not looked at).
    Errc set_operands(std::uint64_t swap_or_add, std::uint64_t compare) noexcept {
        if (!is_atomic(opcode_)) return Errc::invalid_argument;
        words_[4] = be64(swap_or_add).raw();
        words_[5] = be64(compare).raw();
        return Errc::ok;
    }
    Errc set_element(std::size_t index, const Element& element) noexcept {
        if (!takes_element(index, element)) return Errc::invalid_argument;
        std::uint64_t* at = payload() + index * 2;
        at[0] = element_word(element);
        at[1] = be64(element.address).raw();
        return Errc::ok;
    }
    bool takes_element(std::size_t index, const Element& element) const noexcept {
        return index < elements_ && element.bytes != 0 && element.bytes <= kMaxElementBytes &&
               (!is_atomic(opcode_) || element.bytes == 8);
    }
    // As many bytes as were prepared.
    Errc set_inline_payload(std::span<const std::byte> bytes) noexcept {
        if (bytes.size() != inline_bytes_ || bytes.empty()) return Errc::invalid_argument;
        auto* at = reinterpret_cast<std::byte*>(payload());
        UnitCursor(at, at, at + std::size_t{inline_units(inline_bytes_)} * kUnitBytes)
            .put_inline(bytes);
        return Errc::ok;
    }
    void set_signaled(bool on) noexcept { set_flag(kCompletionAlways, on); }
    void set_fence(bool on) noexcept { set_flag(kFence, on); }

    // The local key an element names now.
    std::uint32_t local_key(std::size_t index) const noexcept {
        return be32::from_raw(static_cast<std::uint32_t>(payload()[index * 2] >> 32)).native();
    }
    std::size_t elements() const noexcept { return elements_; }

  private:
    std::uint64_t* payload() const noexcept {
        return words_.get() + std::size_t{shape_.payload_unit} * 2;
    }
    void set_flag(std::uint8_t flag, bool on) noexcept {
        const std::uint64_t bit = flags_word(flag, 0);
        words_[1] = on ? words_[1] | bit : words_[1] & ~bit;
    }

    std::unique_ptr<std::uint64_t[]> words_;
    WqeShape shape_;
    Opcode opcode_;
    std::uint32_t elements_;
    std::uint32_t inline_bytes_;
};

// Any one request, prepared.
class Prepared {
  public:
    // The request's spans are read during the call only. Throws as WqeImage and PreparedBinding do.
    Prepared(SendQueue& queue, const WorkRequest& request, NamedRegions regions = {})
        : image_(queue, request), binding_(queue, regions) {}

    // Errors: invalid_prepared, would_block.
    Errc post(std::uint64_t id) noexcept {
        if (!binding_.check()) [[unlikely]]
            return Errc::invalid_prepared;
        SendQueue& queue = binding_.queue();
        const std::uint64_t* words = image_.words();
        const std::uint32_t blocks = image_.blocks();
        if (blocks == 1) {
            return queue.post_block(
                id, {words[0],
                     words[1],
                     {load_halves(words + 2), load_halves(words + 4), load_halves(words + 6)}});
        }
        if (blocks > queue.free_blocks()) [[unlikely]]
            return queue.full(blocks);
        const std::uint64_t first_word = queue.place_image(id, words, blocks);
        queue.ring(first_word, blocks);
        return Errc::ok;
    }

    // False for good once the queue was reset or a named region released.
    bool valid() const noexcept { return binding_.valid(); }

    // What may change; see WqeImage. An element keeps its key here...
    Errc set_element(std::size_t index, std::uint64_t address, std::uint32_t bytes) noexcept {
        if (index >= image_.elements()) return Errc::invalid_argument;
        return image_.set_element(index, {address, bytes, image_.local_key(index)});
    }
    // ... and moves to another region here. Allocates nothing.
    Errc set_element(std::size_t index, const Element& element,
                     const MemoryRegion& region) noexcept {
        if (element.local_key != region.local_key() || !image_.takes_element(index, element)) {
            return Errc::invalid_argument;
        }
        if (const Errc error = binding_.replace(index, region); error != Errc::ok) return error;
        return image_.set_element(index, element);
    }
    Errc set_remote_address(std::uint64_t address) noexcept {
        return image_.set_remote_address(address);
    }
    Errc set_remote_key(std::uint32_t key) noexcept { return image_.set_remote_key(key); }
    Errc set_immediate(std::uint32_t immediate) noexcept { return image_.set_immediate(immediate); }
    Errc set_operands(std::uint64_t swap_or_add, std::uint64_t compare) noexcept {
        return image_.set_operands(swap_or_add, compare);
    }
    Errc set_inline_payload(std::span<const std::byte> bytes) noexcept {
        return image_.set_inline_payload(bytes);
    }
    void set_signaled(bool on) noexcept { image_.set_signaled(on); }
    void set_fence(bool on) noexcept { image_.set_fence(on); }

  private:
    WqeImage image_;
    PreparedBinding binding_;
};

// Several requests, prepared, posted in order under one doorbell, all or none.
class PreparedList {
  public:
    // `regions`: of all elements of all requests, one after the other. Throws as above, and
    // Error(message_too_large) where the list can never fit the queue.
    PreparedList(SendQueue& queue, std::span<const WorkRequest> requests,
                 NamedRegions regions = {});

    std::size_t size() const noexcept { return images_.size(); }
    // Setters of one request. Its elements keep their regions.
    WqeImage& operator[](std::size_t index) noexcept { return images_[index]; }

    // One id per request. Errors: invalid_prepared, would_block, invalid_argument (count of ids).
    Errc post(std::span<const std::uint64_t> ids) noexcept;
    bool valid() const noexcept { return binding_.valid(); }

  private:
    std::vector<WqeImage> images_;
    std::uint32_t blocks_ = 0;
    PreparedBinding binding_;
};

// An RDMA write of 8 inline bytes: the fastest post there is, for counters, flags and credits.
// Everything about it is known at compile time, so its setters check nothing.
class PreparedWrite8 {
  public:
    struct Target {
        std::uint64_t address = 0;
        std::uint32_t key = 0;
    };
    // Throws Error(message_too_large) where the queue takes less than 8 inline bytes.
    PreparedWrite8(SendQueue& queue, Target target);

    // Errors: invalid_prepared, would_block.
    [[gnu::always_inline]] Errc post(std::uint64_t id) noexcept {
        if (!binding_.check()) [[unlikely]]
            return Errc::invalid_prepared;
        const __m128i payload = _mm_cvtsi64_si128(static_cast<long long>(payload_));
        const __m128i rest = _mm_or_si128(_mm_slli_si128(payload, sizeof(InlineHeader)), header_);
        return binding_.queue().post_block(
            id, {control_, flags_, {load_halves(remote_.data()), rest, _mm_setzero_si128()}});
    }

    void set_remote_address(std::uint64_t address) noexcept { remote_[0] = be64(address).raw(); }
    void set_remote_key(std::uint32_t key) noexcept { remote_[1] = word(be32(key), be32(0)); }
    // The 8 bytes as they lie in memory.
    void set_payload(std::uint64_t payload) noexcept { payload_ = payload; }
    void set_signaled(bool on) noexcept { flags_ = flags_word(on ? kCompletionAlways : 0, 0); }

    bool valid() const noexcept { return binding_.valid(); }

  private:
    std::uint64_t control_;
    std::uint64_t flags_ = flags_word(kCompletionAlways, 0);
    std::array<std::uint64_t, 2> remote_;
    __m128i header_;
    std::uint64_t payload_ = 0;
    PreparedBinding binding_;
};

}  // namespace verbatim::mlx5
