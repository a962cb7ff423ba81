// The posting half of a connection: one send queue and its completion queue, with a running number
// for each accepted request, so that "everything up to here has retired" is one comparison. Few
// requests are signaled: one per quarter of the queue, and those the caller wants to wait for.
// Threads: one at a time. Data path: no allocation, lock, system call or exception.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/prepared.hpp>
#include <verbatim/mlx5/send_queue.hpp>

namespace verbatim {

// A prepared operation and whether its image is signaled now: setting the flag on every post would
// cost more than asking.
template <class Prepared>
struct PreparedWrite {
    Prepared operation;
    bool signaled = true;  // as prepared
};

class SendPath {
  public:
    SendPath(const QueuePairHandle& queue_pair, const CompletionQueueHandle& completions,
             const volatile std::uint64_t* invalidation_epoch)
        : queue_(queue_pair.view(), invalidation_epoch), completions_(completions.view()) {
        completions_.attach(&queue_, nullptr);
    }
    SendPath(const SendPath&) = delete;
    SendPath& operator=(const SendPath&) = delete;

    // Posts a request; its id and signaled are filled in here. Errors: those of SendQueue::post,
    // and error() once the queue pair failed.
    Errc post(mlx5::WorkRequest& request) noexcept {
        request.id = accepted_ + 1;
        request.signaled = wants_signal();
        const std::uint32_t room = queue_.free_blocks();
        return settle(error_ != Errc::ok ? error_ : queue_.post(request), room, request.signaled);
    }
    // Posts a prepared write of this payload to this remote memory.
    template <class Prepared, class Remote, class Payload>
    Errc post(PreparedWrite<Prepared>& write, const Remote& remote,
              const Payload& payload) noexcept {
        const bool signaled = wants_signal();
        if (signaled != write.signaled) write.operation.set_signaled(write.signaled = signaled);
        const std::uint32_t room = queue_.free_blocks();
        return settle(
            error_ != Errc::ok ? error_ : write.operation.post(accepted_ + 1, remote, payload),
            room, signaled);
    }
    // The next request gets a completion of its own.
    void signal_next() noexcept { wanted_ = true; }
    // Makes everything accepted retire without waiting for later requests. would_block: poll, then
    // again.
    Errc signal_last() noexcept {
        if (accepted_ == signaled_) return Errc::ok;
        wanted_ = true;
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::nop};
        return post(request);
    }

    // Takes finished requests off the completion queue. The first error of the queue pair, if any,
    // for good.
    Errc poll() noexcept {
        std::array<mlx5::Completion, 8> finished;
        const std::size_t count = completions_.poll(finished);
        for (std::size_t i = 0; i < count; ++i) retire(finished[i]);
        return error_;
    }
    // Polls only where the queue is half full: one look at the completion queue serves many posts.
    void make_room() noexcept {
        if (queue_.free_blocks() < queue_.blocks() / 2) [[unlikely]]
            (void)poll();
    }

    // Numbers of the last request accepted and of the last one retired; requests retire in order.
    std::uint64_t accepted() const noexcept { return accepted_; }
    std::uint64_t retired() const noexcept { return retired_; }
    Errc error() const noexcept { return error_; }
    mlx5::SendQueue& queue() noexcept { return queue_; }
    std::uint32_t max_inline_bytes() const noexcept { return queue_.limits().max_inline_bytes; }
    std::uint32_t max_elements() const noexcept { return queue_.limits().max_elements; }

  private:
    bool wants_signal() const noexcept {
        return wanted_ || unsignaled_blocks_ >= queue_.blocks() / 4;
    }

    Errc settle(Errc result, std::uint32_t room_before, bool signaled) noexcept {
        if (result != Errc::ok) [[unlikely]]
            return result;
        ++accepted_;
        if (signaled) {
            signaled_ = accepted_;
            unsignaled_blocks_ = 0;
            wanted_ = false;
        } else {
            unsignaled_blocks_ += room_before - queue_.free_blocks();
        }
        return Errc::ok;
    }

    // An error flushes what is behind it; the request that caused it says more than "flushed".
    void retire(const mlx5::Completion& completion) noexcept {
        retired_ = completion.id;
        if (completion.status != Errc::ok && (error_ == Errc::ok || error_ == Errc::flushed))
            [[unlikely]]
            error_ = completion.status;
    }

    mlx5::SendQueue queue_;
    mlx5::CompletionQueue completions_;
    std::uint64_t accepted_ = 0, retired_ = 0, signaled_ = 0;
    std::uint32_t unsignaled_blocks_ = 0;
    bool wanted_ = false;
    Errc error_ = Errc::ok;
};

}  // namespace verbatim
