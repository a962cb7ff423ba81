// Whether what a prepared operation depends on is still there, at next to no cost per post. Two
// things end it: its queue is reset or destroyed, which revokes every operation in the queue's
// list; or a memory region it names is released, which moves the device's epoch and makes the slow
// path look. Threads: those of the queue, apart from the epoch, which any thread may move.
#pragma once

#include <cstdint>

namespace verbatim::mlx5 {

class SendQueue;

// A node of its queue's list while it is valid. Circular and doubly linked: leaving costs the same
// anywhere.
class Validity {
  public:
    Validity() = default;
    Validity(Validity&& other) noexcept { take_over(other); }
    Validity& operator=(Validity&& other) noexcept {
        if (this == &other) return *this;
        revoke();
        take_over(other);
        return *this;
    }
    ~Validity() { unlink(); }

    // The queue to post to. A revoked operation gets one that is always full, so that the test for
    // room, which every post makes, refuses it too.
    SendQueue& queue() const noexcept { return *queue_; }
    bool revoked() const noexcept { return revoked_; }

    // True: nothing was released since. False: look at the regions.
    [[gnu::always_inline]] bool unchanged() const noexcept {
        return __atomic_load_n(epoch_, __ATOMIC_RELAXED) == valid_at_;
    }
    // The epoch now; a region released after this call moves it again.
    std::uint64_t epoch() const noexcept { return __atomic_load_n(epoch_, __ATOMIC_ACQUIRE); }
    void confirm(std::uint64_t epoch) noexcept { valid_at_ = epoch; }

    // For good: nothing of the queue is looked at any more.
    void revoke() noexcept;

  private:
    friend class ValidityList;

    static constexpr std::uint64_t kNoEpoch = 0;

    void unlink() noexcept {
        previous_->next_ = next_;
        next_->previous_ = previous_;
        next_ = previous_ = this;
    }
    void link_behind(Validity& before) noexcept {
        previous_ = &before;
        next_ = before.next_;
        before.next_ = next_->previous_ = this;
    }
    void take_over(Validity& other) noexcept {
        if (!other.revoked_) link_behind(other);
        queue_ = other.queue_;
        epoch_ = other.epoch_;
        valid_at_ = other.valid_at_;
        revoked_ = other.revoked_;
        other.revoke();
    }

    SendQueue* queue_ = nullptr;
    const volatile std::uint64_t* epoch_ = &kNoEpoch;
    std::uint64_t valid_at_ = 0;
    Validity* next_ = this;
    Validity* previous_ = this;
    bool revoked_ = true;
};

// The prepared operations of one queue.
class ValidityList {
  public:
    // `validity` is a new one. `epoch`: the device's, or null where no region is named.
    void add(Validity& validity, SendQueue& queue, const volatile std::uint64_t* epoch) noexcept {
        validity.link_behind(head_);
        validity.queue_ = &queue;
        validity.revoked_ = false;
        if (epoch != nullptr) validity.epoch_ = epoch;
        validity.confirm(validity.epoch());
    }
    void revoke_all() noexcept {
        while (head_.next_ != &head_) head_.next_->revoke();
    }

  private:
    Validity head_;
};

}  // namespace verbatim::mlx5
