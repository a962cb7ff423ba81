// The access words of one queue pair: those of its two engines, and the one of the ring that its
// peer writes. Threads: control path, but for the words themselves.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "../keys/access_registry.hpp"
#include "../rings/channel.hpp"

namespace verbatim::softnic {

class QueuePairAccess {
  public:
    // Throws std::bad_alloc.
    QueuePairAccess(AccessRegistry& registry, std::uint32_t number);
    QueuePairAccess(const QueuePairAccess&) = delete;
    QueuePairAccess& operator=(const QueuePairAccess&) = delete;
    // The queue pair goes, and none of its engines runs any more. Not in a forked child, where the
    // registry's lock may be held by a thread of the parent.
    void remove() noexcept;

    // Of the thread inside the send, and the receive, gate.
    std::atomic<std::uint64_t>& send_word() noexcept { return send_->own(); }
    std::atomic<std::uint64_t>& receive_word() noexcept { return receive_->own(); }
    // Every revoker of this process raises barriers.
    bool barriers() const noexcept { return registry_.barriers(); }

    // Watches a ring that a peer will write. Throws std::bad_alloc.
    std::shared_ptr<AccessWord> watch(const ChannelReceiver& ring);
    // It is the queue pair's from now on, or none is; the one before.
    std::shared_ptr<AccessWord> exchange_ring(std::shared_ptr<AccessWord> ring) noexcept {
        return std::exchange(ring_, std::move(ring));
    }
    // The queue pair's ring was given to this process.
    void set_writer(std::shared_ptr<const PeerProcess> writer) noexcept {
        ring_->set_writer(std::move(writer));
    }
    // After a ring was closed: waits until no peer touches memory through it. If one is stopped
    // there its word stays in the registry.
    void withdraw(const std::shared_ptr<AccessWord>& ring) noexcept;

    // Messages that are received touch memory of another device, or not any more: its
    // deregistration is to wait for this queue pair's receive engine. Once for each reason.
    void receive_for(AccessRegistry& other, const void* reason);
    void receive_no_more_for(const void* reason) noexcept;
    void receive_no_more() noexcept;

  private:
    struct Elsewhere {
        AccessRegistry* registry;
        std::shared_ptr<AccessWord> word;
    };

    AccessRegistry& registry_;
    const std::uint32_t number_;
    std::shared_ptr<AccessWord> send_, receive_, ring_;
    std::map<const void*, Elsewhere> elsewhere_;  // by reason
};

}  // namespace verbatim::softnic
