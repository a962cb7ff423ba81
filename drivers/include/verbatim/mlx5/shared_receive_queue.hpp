// A shared receive queue holds one stock of buffers for the messages of many queue pairs. Its
// entries are a list that the device follows from link to link. Messages finish in any order; an
// entry that was retired goes to the end of the list, and posts take from its start. Because an
// entry's link must be right when it is posted, the last entry of the list is never posted: it
// waits for a successor. Threads: one at a time, the same that polls every completion queue where
// it is attached. Source: PRM, "Shared Receive Queue (SRQ)"; rdma-core keeps the same list.
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

class SharedReceiveQueue {
  public:
    // Of a queue that nothing was posted to yet. Throws Error(invalid_argument) on a view that
    // cannot work.
    explicit SharedReceiveQueue(const SharedReceiveQueueView& view);
    SharedReceiveQueue(const SharedReceiveQueue&) = delete;
    SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

    // Errors: would_block (capacity() are posted), invalid_argument (too many or empty elements),
    // message_too_large (the elements, or the list of requests, can never fit).
    Errc post(const ReceiveRequest& request) noexcept { return post(std::span(&request, 1)); }
    // All of them under one doorbell-record update, or none.
    Errc post(std::span<const ReceiveRequest> requests) noexcept {
        if (requests.size() > free_entries()) return full(requests.size());
        for (const ReceiveRequest& request : requests) {
            if (const Errc error = check(request); error != Errc::ok) return error;
        }
        for (const ReceiveRequest& request : requests) {
            write(head_, request);
            head_ = take(head_);
            unfilled_ -= unfilled_ != 0 ? 1 : 0;
        }
        publish(static_cast<std::uint32_t>(requests.size()));
        return Errc::ok;
    }

    // Fills all entries, in the order in which they will be posted, and posts none: repost() does.
    // One request for each of entries(), and nothing may be outstanding. Errors: invalid_argument,
    // message_too_large.
    Errc prebuild(std::span<const ReceiveRequest> requests) noexcept;

    // Posts the next `count` free entries with the buffers and ids they were filled with. That is
    // one step along the list for each, one store for all. The entries retired first come first;
    // the one retired last is never among them. So a thread that keeps some entries free can refill
    // before it handles a message. Errors: would_block, message_too_large (more than capacity()),
    // invalid_argument (not all entries were ever filled; see prebuild()).
    Errc repost(std::uint32_t count) noexcept {
        if (count > free_entries()) return full(count);
        if (unfilled_ != 0) return Errc::invalid_argument;
        for (std::uint32_t i = 0; i < count; ++i) head_ = take(head_);
        publish(count);
        return Errc::ok;
    }

    std::uint32_t entries() const noexcept { return entries_; }
    std::uint32_t capacity() const noexcept { return entries_ - 1; }  // entries that can be posted
    std::uint32_t free_entries() const noexcept { return capacity() - outstanding_; }
    std::uint32_t outstanding() const noexcept { return outstanding_; }
    std::uint32_t number() const noexcept { return number_; }  // of this queue, not of a queue pair

    // -- For completion queues --
    // Retires the entry that a completion names (its wqe_counter); the id, or nothing where that
    // entry is not outstanding. It keeps its contents until it is posted again.
    std::optional<std::uint64_t> retire(std::uint16_t index) noexcept {
        if (index >= entries_ || slots_[index].next != kPosted) [[unlikely]]
            return std::nullopt;
        slots_[index].next = kEnd;
        slots_[tail_].next = index;
        link(tail_, index);
        tail_ = index;
        --outstanding_;
        return slots_[index].id;
    }
    // The scatter list of entry `index`, which is below entries().
    std::span<const std::byte> scatter_list(std::uint16_t index) const noexcept {
        return list_of(index);
    }

  private:
    // This side's state of an entry lies beside its id and not in the entry. So posting a prebuilt
    // entry does not touch its cache line.
    struct Slot {
        std::uint64_t id = 0;
        std::uint16_t next = 0;  // free: the next free entry, or kEnd
    };
    static constexpr std::uint16_t kPosted = 0xffff, kEnd = 0xfffe;  // above every index

    std::byte* entry(std::uint32_t index) const noexcept {
        return ring_ + (std::size_t{index} << stride_log2_);
    }
    std::span<std::byte> list_of(std::uint32_t index) const noexcept {
        return std::span(entry(index), std::size_t{1} << stride_log2_)
            .subspan(sizeof(SharedReceiveNextSegment));
    }
    Errc check(const ReceiveRequest& request) const noexcept {
        return check_elements(request.elements, max_elements_);
    }
    Errc full(std::size_t wanted) const noexcept {
        return wanted > capacity() ? Errc::message_too_large : Errc::would_block;
    }
    void write(std::uint16_t index, const ReceiveRequest& request) noexcept {
        encode_receive(list_of(index), request.elements);
        slots_[index].id = request.id;
    }
    // Marks a free entry posted; the one after it.
    std::uint16_t take(std::uint16_t index) noexcept {
        const std::uint16_t next = slots_[index].next;
        slots_[index].next = kPosted;
        return next;
    }
    // Atomic, because a software device may read a stale link, and finds that out afterwards.
    void link(std::uint16_t from, std::uint16_t to) noexcept {
        auto* const next = reinterpret_cast<std::uint16_t*>(
            entry(from) + offsetof(SharedReceiveNextSegment, next_index));
        __atomic_store_n(next, be16(to).raw(), __ATOMIC_RELAXED);
    }
    // The record alone: receives need no register. Release, so that entries and links are visible
    // before it.
    void publish(std::uint32_t count) noexcept {
        outstanding_ += count;
        posted_ += count;
        __atomic_store_n(record_, be32(posted_ & 0xffff).raw(), __ATOMIC_RELEASE);
        if (hook_.call != nullptr) [[unlikely]]
            hook_.call(hook_.context);
    }

    std::byte* ring_;
    std::unique_ptr<Slot[]> slots_;
    volatile std::uint32_t* record_;  // owner: this side
    std::uint32_t entries_;
    std::uint32_t outstanding_ = 0;
    std::uint32_t posted_ = 0;  // ever
    std::uint32_t unfilled_;    // entries at the start of the list that were never filled
    std::uint16_t head_ = 0;    // first free entry
    std::uint16_t tail_;        // last free entry
    std::uint32_t stride_log2_;
    std::uint32_t max_elements_;
    std::uint32_t number_;
    ReceiveHook hook_;
};

}  // namespace verbatim::mlx5
