// Prepared operations: a work request encoded once and posted many times (jVerbs §5.3: stateful
// verb calls). What may change between posts is patched into the image: addresses, keys, lengths,
// the immediate, atomic operands, inline payload of the same size. Changes that would need another
// shape are refused.
//
// An operation stops being valid when its queue was reset or a memory region it names was released;
// posting it then is an error value. It must not outlive its queue. Threads: those of the queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/prepared_binding.hpp>
#include <verbatim/mlx5/prepared_fixed.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/mlx5/work_request.hpp>
#include <verbatim/mlx5/wqe_image.hpp>

namespace verbatim::mlx5 {

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
        const std::uint32_t blocks = image_.blocks();
        const Errc error = blocks == 1 ? queue.post_block(id, Block::load(image_.words()))
                                       : queue.post_image(id, image_.words(), blocks);
        return error == Errc::ok ? error : binding_.refusal(error);
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
    Errc set_target(const DatagramTarget& target) noexcept { return image_.set_target(target); }
    Errc set_invalidated_key(std::uint32_t key) noexcept { return image_.set_invalidated_key(key); }
    Errc set_operands(std::uint64_t swap_or_add, std::uint64_t compare) noexcept {
        return image_.set_operands(swap_or_add, compare);
    }
    Errc set_masks(std::uint64_t compare_mask, std::uint64_t swap_mask) noexcept {
        return image_.set_masks(compare_mask, swap_mask);
    }
    Errc set_field_ends(std::uint64_t field_ends) noexcept {
        return image_.set_field_ends(field_ends);
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

    // Posts with the address and payload that were set last. Errors: invalid_prepared, would_block.
    [[gnu::always_inline]] Errc post(std::uint64_t id) noexcept {
        return fixed_.post(id, remote_address_, payload_);
    }
    // Posts this address and payload and does not keep them.
    [[gnu::always_inline]] Errc post(std::uint64_t id, std::uint64_t remote_address,
                                     std::uint64_t payload) noexcept {
        return fixed_.post(id, remote_address, payload);
    }

    // One write of a list.
    struct Write {
        std::uint64_t remote_address = 0;
        std::uint64_t payload = 0;
    };
    // Posts `count` writes under one doorbell, or none: `next(i)` returns the i-th Write. Their ids
    // are first_id, first_id + 1, ...; only the last one is signaled, if this operation is. Errors:
    // invalid_prepared, would_block, message_too_large (more than the queue has blocks).
    template <class Next>
    [[gnu::always_inline]] Errc post_list(std::uint64_t first_id, std::uint32_t count,
                                          Next&& next) noexcept {
        if (count == 1) {  // whose bytes may go into the register
            const Write only = next(0);
            return post(first_id, only.remote_address, only.payload);
        }
        return fixed_.post_list(first_id, count, next);
    }

    void set_remote_address(std::uint64_t address) noexcept { remote_address_ = address; }
    void set_remote_key(std::uint32_t key) noexcept { fixed_.set_remote_key(key); }
    // The 8 bytes as they lie in memory.
    void set_payload(std::uint64_t payload) noexcept { payload_ = payload; }
    void set_signaled(bool on) noexcept { fixed_.set_signaled(on); }

    bool valid() const noexcept { return fixed_.valid(); }

  private:
    PreparedFixed<Opcode::write, Inline<8>> fixed_;
    std::uint64_t remote_address_;
    std::uint64_t payload_ = 0;
};

}  // namespace verbatim::mlx5
