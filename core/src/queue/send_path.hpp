// A send path posts the requests of one queue pair, each with a running number, so that "everything
// up to here has retired" is one comparison. Few requests are signaled: one per quarter of the
// queue, and those that the caller wants to wait for. Threads: the lane's. Data path: no
// allocation, lock, system call or exception.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <verbatim/mlx5/prepared.hpp>

#include "lane_queue.hpp"
#include "queue_user.hpp"
#include "send_room.hpp"

namespace verbatim {

// A prepared operation and whether its image is signaled now: setting the flag on every post would
// cost more than asking.
template <class Prepared>
struct PreparedPost {
    Prepared operation;
    bool signaled = true;  // as prepared
};

class SendPath {
  public:
    // Blocks that ordinary requests leave free, for those that may not be refused: the immediate or
    // the note behind a record, and the write and the read that arm a connection (docs/arrival.md).
    static constexpr std::uint32_t kReserve = 3;
    // Of the longest request that core posts.
    static constexpr std::uint32_t kLongestBlocks = 5;

    // Both outlive the path; `user` is attached to `queue`.
    SendPath(LaneQueue& queue, QueueUser& user) : lane_queue_(&queue), user_(&user) {}
    SendPath(const SendPath&) = delete;
    SendPath& operator=(const SendPath&) = delete;

    // Posts a request; its id and signaled are filled in here. Errors: those of SendQueue::post,
    // and error() once the queue pair failed.
    Errc post(mlx5::WorkRequest& request) noexcept {
        return has_room() ? post_reserved(request) : refusal();
    }
    // The same, where the reserve may be used.
    Errc post_reserved(mlx5::WorkRequest& request) noexcept {
        request.id = user_->id_of(accepted_ + 1);
        request.signaled = wants_signal();
        const std::uint32_t room = queue().free_blocks();
        return settle(error() != Errc::ok ? error() : queue().post(request), room,
                      request.signaled);
    }
    // Posts a prepared write of this payload to this remote memory.
    template <class Prepared, class Remote, class Payload>
    Errc post(PreparedPost<Prepared>& write, const Remote& remote,
              const Payload& payload) noexcept {
        if (!has_room()) [[unlikely]]
            return refusal();
        return post_reserved(write, remote, payload);
    }
    template <class Prepared, class Remote, class Payload>
    Errc post_reserved(PreparedPost<Prepared>& write, const Remote& remote,
                       const Payload& payload) noexcept {
        const bool signaled = wants_signal();
        if (signaled != write.signaled) write.operation.set_signaled(write.signaled = signaled);
        const std::uint32_t room = queue().free_blocks();
        const std::uint64_t id = user_->id_of(accepted_ + 1);
        const Errc result =
            error() != Errc::ok ? error() : write.operation.post(id, remote, payload);
        if (result != Errc::ok) [[unlikely]]
            return result == Errc::invalid_prepared ? post_anew(write, remote, payload) : result;
        return settle(Errc::ok, room, signaled);
    }
    // The same of an operation that always gets a completion.
    template <class Prepared, class Remote, class Payload>
    [[gnu::always_inline]] Errc post_signaled(Prepared& operation, const Remote& remote,
                                              const Payload& payload) noexcept {
        make_room();
        if (!has_room() || error() != Errc::ok) [[unlikely]]
            return refusal();
        const Errc result = operation.post(user_->id_of(accepted_ + 1), remote, payload);
        if (result != Errc::ok) [[unlikely]]
            return result;
        signaled_ = ++accepted_;
        unsignaled_blocks_ = 0;
        wanted_ = false;
        return Errc::ok;
    }
    // Posts `count` requests of one block each under one doorbell: `posted` of them, as many as
    // there is room for. `next(i)` returns the i-th, a mlx5::Listed. The last one gets a
    // completion. Errors: as above, and none is posted.
    template <class Prepared, class Next>
    Errc post_list(PreparedPost<Prepared>& list, std::uint32_t count, Next&& next,
                   std::uint32_t& posted) noexcept {
        const std::uint32_t room = queue().free_blocks();
        if (!has_room() || error() != Errc::ok) return refusal();
        if (!list.signaled) list.operation.set_signaled(list.signaled = true);
        posted = std::min(count, room - kReserve);
        const std::uint64_t first = user_->id_of(accepted_ + 1);
        if (const Errc result = list.operation.post_list(first, posted, next); result != Errc::ok) {
            if (result != Errc::invalid_prepared) return result;
            list.operation.move_to(queue());
            return post_list(list, count, next, posted);
        }
        accepted_ += posted - 1;
        return settle(Errc::ok, 0, true);
    }
    // The next request gets a completion of its own.
    void signal_next() noexcept { wanted_ = true; }
    // A completion is under way.
    bool awaits_completion() const noexcept { return user_->retired() < signaled_; }
    // Makes everything accepted retire without waiting for later requests. would_block: poll, then
    // again.
    Errc signal_last() noexcept {
        if (accepted_ == signaled_) return Errc::ok;
        wanted_ = true;
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::nop};
        return post(request);
    }
    // The same where the queue pair has failed: the request is flushed, behind all others.
    Errc post_last() noexcept {
        if (accepted_ == signaled_) return Errc::ok;
        const mlx5::WorkRequest request{.opcode = mlx5::Opcode::nop,
                                        .id = user_->id_of(accepted_ + 1)};
        return settle(queue().post(request), queue().free_blocks(), true);
    }

    // -- For a move to another queue pair (docs/moving.md) --
    // While it is paused there is room for nothing, but for the reserve.
    SendRoom& room() noexcept { return room_; }
    // Everything accepted has retired. While paused: else asks for a completion of it.
    bool drain() noexcept {
        if (user_->retired() != accepted_) (void)post_last();
        return user_->retired() == accepted_;
    }
    // Another queue pair, whose numbers go on where these end. Prepared requests follow with their
    // next post, as the old one's end revokes them.
    void rebind(LaneQueue& queue, QueueUser& user) noexcept {
        lane_queue_ = &queue;
        user_ = &user;
        signaled_ = accepted_;
        unsignaled_blocks_ = 0;
        wanted_ = false;
    }

    // Polls the lane's queue. The first error of this queue pair, if any, for good.
    Errc poll() noexcept {
        lane_queue_->poll();
        return error();
    }
    // Polls only where the queue is half full: one look at the completion queue serves many posts.
    void make_room() noexcept {
        if (queue().free_blocks() < queue().blocks() / 2) [[unlikely]]
            (void)poll();
    }

    // Numbers of the last request accepted and of the last one retired; requests retire in order.
    std::uint64_t accepted() const noexcept { return accepted_; }
    std::uint64_t retired() const noexcept { return user_->retired(); }
    Errc error() const noexcept { return user_->error(); }
    mlx5::SendQueue& queue() noexcept { return user_->send(); }
    QueueUser& user() noexcept { return *user_; }

  private:
    template <class Prepared, class Remote, class Payload>
    [[gnu::noinline]] Errc post_anew(PreparedPost<Prepared>& write, Remote remote,
                                     Payload payload) noexcept {
        write.operation.move_to(queue());
        return post_reserved(write, remote, payload);
    }
    bool has_room() noexcept {
        const std::uint32_t free = user_->send().free_blocks();
        return free >= room_.needed() || room_.admits(free);
    }
    Errc refusal() const noexcept { return error() != Errc::ok ? error() : Errc::would_block; }
    bool wants_signal() const noexcept {
        return wanted_ || unsignaled_blocks_ >= user_->send().blocks() / 4;
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
            unsignaled_blocks_ += room_before - queue().free_blocks();
        }
        return Errc::ok;
    }

    LaneQueue* lane_queue_;
    QueueUser* user_;
    SendRoom room_{kReserve + kLongestBlocks};
    std::uint64_t accepted_ = 0, signaled_ = 0;
    std::uint32_t unsignaled_blocks_ = 0;
    bool wanted_ = false;
};

}  // namespace verbatim
