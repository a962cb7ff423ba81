// A queue user is one queue pair of a lane: its send and receive queue, and what completions have
// told about them so far. Threads: the lane's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/receive_queue.hpp>
#include <verbatim/mlx5/send_queue.hpp>

#include "post_watch.hpp"

namespace verbatim {

class QueueUser {
  public:
    // Receives that a queue pair needs: one for the immediate of a generation, and one that turns a
    // hostile peer's surplus immediate into a completion (docs/arrival.md).
    static constexpr std::uint32_t kReceives = 2;
    // A request's id: the slot in the lane's table above, the running number below.
    static constexpr unsigned kNumberBits = 48;

    // `retired`: number of the last request of the queue pair that this one replaces.
    QueueUser(const QueuePairHandle& queue_pair, const volatile std::uint64_t* invalidation_epoch,
              std::uint64_t retired = 0)
        : send_(queue_pair.view(), invalidation_epoch),
          receive_(queue_pair.view()),
          retired_(retired) {}
    QueueUser(const QueueUser&) = delete;
    QueueUser& operator=(const QueueUser&) = delete;

    // The lane member that uses the queue pair; set by it. Null: its news are nobody's.
    void* owner() const noexcept { return owner_; }
    void set_owner(void* owner) noexcept { owner_ = owner; }
    mlx5::SendQueue& send() noexcept { return send_; }
    mlx5::ReceiveQueue& receive() noexcept { return receive_; }
    std::uint32_t number() const noexcept { return receive_.number(); }
    std::uint32_t slot() const noexcept { return slot_; }
    std::uint64_t id_of(std::uint64_t number) const noexcept {
        return std::uint64_t{slot_} << kNumberBits | (number & kNumberMask);
    }

    // Number of the last request that has retired. Requests retire in order.
    std::uint64_t retired() const noexcept { return retired_; }
    // The first error of the queue pair, for good.
    Errc error() const noexcept { return error_; }
    // would_block until that request has retired; then ok, or the error of the queue pair, which
    // fails all requests from the first one on.
    Errc outcome(std::uint64_t request) const noexcept {
        if (request > retired_) return Errc::would_block;
        if (request < first_failed_) [[likely]]
            return Errc::ok;
        return error_ != Errc::ok ? error_ : Errc::flushed;
    }

    // Immediates that have come and were not taken: at most kReceives.
    std::uint32_t immediates() const noexcept { return immediates_; }
    // The latest of them. Two that were not taken are an error of the peer's, whatever they say.
    std::uint32_t take_immediate() noexcept {
        --immediates_;
        return immediate_;
    }

    // In a forked child, where nothing of the parent's retires: what is under way has failed there.
    void inherit() noexcept {
        error_ = Errc::permission_denied;
        first_failed_ = std::min(first_failed_, retired_ + 1);
        retired_ = ~std::uint64_t{0} >> 1;
    }

    // Requests that have failed. They have retired.
    std::uint64_t failed() const noexcept {
        return retired_ < first_failed_ ? 0 : retired_ - first_failed_ + 1;
    }
    // Tells `watch` once that request has retired; only one at a time.
    void watch(RetiredWatch& watch) noexcept {
        watch_ = &watch;
        watched_ = watch.number;
    }

    // -- For the lane's queue --
    void set_slot(std::uint32_t slot) noexcept { slot_ = slot; }
    // True if the lane must look at this user: an immediate came, or the queue pair failed.
    bool note(const mlx5::Completion& completion) noexcept {
        const bool failed = completion.status != Errc::ok;
        // An error flushes what is behind it; the request that caused it says more than "flushed".
        if (failed && (error_ == Errc::ok || error_ == Errc::flushed)) [[unlikely]]
            if (owner_ != nullptr) error_ = completion.status;
        if (completion.kind == mlx5::CompletionKind::send_side) {
            // Sign extended, so that numbers may pass 2^48.
            retired_ += (completion.id - retired_) & kNumberMask;
            if (failed) [[unlikely]]
                first_failed_ = std::min(first_failed_, retired_);
            if (retired_ >= watched_) [[unlikely]]
                tell_watch(failed);
            return failed;
        }
        if (!failed) {
            ++immediates_;
            immediate_ = completion.immediate;
            is_message_ |= completion.kind == mlx5::CompletionKind::receive;
        }
        return true;
    }
    // The peer sent a message, which no honest one does.
    bool was_sent_to() const noexcept { return is_message_; }
    // True once, until attended() is called: the user joins the list of those with news.
    bool wants_attention() noexcept { return !std::exchange(waits_for_attention_, true); }
    void attended() noexcept { waits_for_attention_ = false; }

  private:
    static constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;

    [[gnu::noinline]] void tell_watch(bool failed) noexcept {
        watched_ = RetiredWatch::kNone;
        watch_->retired(*watch_, failed);
    }

    mlx5::SendQueue send_;
    mlx5::ReceiveQueue receive_;
    void* owner_ = nullptr;
    std::uint64_t retired_, first_failed_ = ~std::uint64_t{0};
    std::uint64_t watched_ = RetiredWatch::kNone;
    RetiredWatch* watch_ = nullptr;
    std::uint32_t slot_ = 0;
    Errc error_ = Errc::ok;
    std::uint32_t immediates_ = 0, immediate_ = 0;
    bool is_message_ = false;
    bool waits_for_attention_ = false;
};

}  // namespace verbatim
