// Memory that the receiver of a pair lends to its sender.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <span>
#include <thread>

#include <verbatim/core/prepared.hpp>

#include "../core_messages.hpp"

namespace verbatim::test {

inline constexpr Access kAll = Access::remote_read | Access::remote_write | Access::remote_atomic;

struct Item {
    std::uint64_t key;
    double value;
};

// Memory of an arena.
template <class T>
class Local {
  public:
    Local(Arena& arena, std::size_t count)
        : arena_(arena), items_(static_cast<T*>(arena.allocate(count * sizeof(T), 64)), count) {
        std::memset(static_cast<void*>(items_.data()), 0, items_.size_bytes());
    }
    ~Local() { arena_.deallocate(items_.data(), items_.size_bytes(), 64); }
    Local(const Local&) = delete;
    Local& operator=(const Local&) = delete;
    std::span<T> operator*() const { return items_; }
    const std::span<T>* operator->() const { return &items_; }
    T& operator[](std::size_t index) const { return items_[index]; }

  private:
    Arena& arena_;
    std::span<T> items_;
};

// Memory of the receiver of a pair, lent to its sender, in whose thread everything happens. The
// peer's thread only polls.
template <class T>
class Lent {
  public:
    explicit Lent(std::size_t count, Access access = kAll) : there(pair_.receiver->arena(), count) {
        grant_.emplace(*pair_.receiver, std::as_writable_bytes(*there), access);
        RemoteSpan<T> span(grant_->extents()[0]);
        EXPECT_EQ(pair_.receiver->try_send(1, span.bytes()), Errc::ok);
        peer_ = std::thread([this] {
            while (!stop_) {
                (void)pair_.receiver->progress();
                if (ends_ && !has_ended_) {
                    grant_->end();
                    has_ended_ = pair_.receiver->try_send(2, {}) == Errc::ok;
                }
                std::this_thread::yield();
            }
        });
        const Message message = pair_.sender->receive_message(soon());
        remote = RemoteSpan<T>::parse(message.payload()).value();
    }
    ~Lent() {
        stop_peer();
        grant_->wait_end(soon());
    }
    void stop_peer() {
        stop_ = true;
        if (peer_.joinable()) peer_.join();
    }
    // The lender ends the grant, and says it by a message of channel 2.
    void end_grant() { ends_ = true; }
    Connection& connection() { return *pair_.sender; }
    Arena& arena() { return pair_.sender->arena(); }
    ConnectedPair& pair() { return pair_; }
    Errc wait_for(OneSided& one_sided, const Operation& operation) {
        Errc error = Errc::would_block;
        const Deadline deadline = soon();
        while ((error = one_sided.result(operation)) == Errc::would_block && !deadline.passed())
            (void)connection().progress();
        return error;
    }

  private:
    ConnectedPair pair_;
    std::optional<Grant> grant_;
    std::atomic<bool> stop_{false}, ends_{false};
    bool has_ended_ = false;  // the peer thread's
    std::thread peer_;

  public:
    Local<T> there;
    RemoteSpan<T> remote;
};

// The peer's queue pair fails with the request, and so its end may be noticed first.
inline bool is_refusal(Errc error) {
    return error == Errc::remote_access || error == Errc::flushed || error == Errc::peer_lost;
}

}  // namespace verbatim::test
