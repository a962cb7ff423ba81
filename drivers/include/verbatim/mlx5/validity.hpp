// A validity list holds the prepared operations of a queue, at no cost to a post. A queue that is
// reset or destroyed revokes every operation in its list. Threads: those of the queue.
#pragma once

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

    // Revokes it for good: the queue is not accessed any more.
    void revoke() noexcept;

  private:
    friend class ValidityList;

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
        revoked_ = other.revoked_;
        other.revoke();
    }

    SendQueue* queue_ = nullptr;
    Validity* next_ = this;
    Validity* previous_ = this;
    bool revoked_ = true;
};

// The prepared operations of one queue.
class ValidityList {
  public:
    // `validity` is a new one.
    void add(Validity& validity, SendQueue& queue) noexcept {
        validity.link_behind(head_);
        validity.queue_ = &queue;
        validity.revoked_ = false;
    }
    void revoke_all() noexcept {
        while (head_.next_ != &head_) head_.next_->revoke();
    }

  private:
    Validity head_;
};

}  // namespace verbatim::mlx5
