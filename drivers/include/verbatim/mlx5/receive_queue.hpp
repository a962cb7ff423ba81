// A receive queue posts buffers for incoming sends and entries for incoming immediates. Entries are
// consumed in the order they were posted, each exactly once. Threads: one at a time, the same that
// polls the completion queue it is attached to. Source: PRM, "Receive Queue".
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::mlx5 {

class ReceiveQueue {
  public:
    // Throws Error(invalid_argument) on a view that cannot work.
    explicit ReceiveQueue(const QueuePairView& view);
    ReceiveQueue(const ReceiveQueue&) = delete;
    ReceiveQueue& operator=(const ReceiveQueue&) = delete;

    // Errors: would_block (all entries are posted), invalid_argument (too many or empty elements).
    Errc post(const ReceiveRequest& request) noexcept { return post(std::span(&request, 1)); }
    // All of them under one doorbell-record update, or none.
    Errc post(std::span<const ReceiveRequest> requests) noexcept {
        if (requests.size() > free_entries()) return full(requests.size());
        for (const ReceiveRequest& request : requests) {
            if (const Errc error = check(request); error != Errc::ok) return error;
        }
        for (const ReceiveRequest& request : requests) write(next_++, request);
        if (next_ >= entries()) lapped_ = true;
        publish();
        return Errc::ok;
    }

    // Posts the next `count` free entries again with the buffers and ids they had the last time
    // round: the whole cost is one store. All of those must have been posted before. Errors:
    // would_block, invalid_argument (some were never filled).
    Errc repost(std::uint32_t count) noexcept {
        if (count > free_entries()) return full(count);
        if (!lapped_) return Errc::invalid_argument;
        next_ += count;
        publish();
        return Errc::ok;
    }

    std::uint32_t entries() const noexcept { return mask_ + 1; }
    std::uint32_t free_entries() const noexcept { return limit_ - next_; }
    std::uint32_t outstanding() const noexcept { return entries() - free_entries(); }
    std::uint32_t number() const noexcept { return number_; }

    // Forgets everything outstanding; entries must be posted afresh. See SendQueue::reset().
    void reset() noexcept;

    // -- For completion queues --
    // Retires the oldest entry; its id, or nothing where none is outstanding. A reliable connection
    // consumes receives in order, so the entry's counter in the CQE is not needed. Nor does
    // rdma-core, which was run with more devices, trust it.
    std::optional<std::uint64_t> retire() noexcept {
        if (free_entries() == entries()) [[unlikely]]
            return std::nullopt;
        const std::uint32_t oldest = limit_++ - entries();
        return ids_[oldest & mask_];
    }
    // The scatter list of the entry that retired last. It stays until the next post.
    std::span<const std::byte> last_retired() const noexcept {
        return {entry(limit_ - entries() - 1), std::size_t{1} << stride_log2_};
    }

  private:
    std::byte* entry(std::uint32_t counter) const noexcept {
        return ring_ + (std::size_t{counter & mask_} << stride_log2_);
    }
    Errc check(const ReceiveRequest& request) const noexcept {
        return check_elements(request.elements, max_elements_);
    }
    Errc full(std::size_t wanted) const noexcept {
        return wanted > entries() ? Errc::message_too_large : Errc::would_block;
    }

    void write(std::uint32_t counter, const ReceiveRequest& request) noexcept {
        encode_receive({entry(counter), std::size_t{1} << stride_log2_}, request.elements);
        ids_[counter & mask_] = request.id;
    }

    // The record alone: receives need no register. Release, so that the entries are visible before
    // it.
    void publish() noexcept {
        __atomic_store_n(record_, be32(next_ & 0xffff).raw(), __ATOMIC_RELEASE);
        if (hook_.call != nullptr) [[unlikely]]
            hook_.call(hook_.context);
    }

    std::byte* ring_;
    std::unique_ptr<std::uint64_t[]> ids_;
    volatile std::uint32_t* record_;  // owner: this side
    std::uint32_t next_ = 0;
    std::uint32_t limit_;
    std::uint32_t mask_;
    std::uint32_t stride_log2_;
    std::uint32_t max_elements_;
    std::uint32_t number_;
    ReceiveHook hook_;
    bool lapped_ = false;  // every entry has been filled once
};

}  // namespace verbatim::mlx5
