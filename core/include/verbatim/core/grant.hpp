// A grant lends memory of this process to the peer of one connection: exactly these bytes, with an
// end. The end is a barrier: after it nothing of the peer can land there. docs/grants.md has the
// states. On the device it is a memory window of type 2 for each segment of the arena that it
// touches.
//
// Threads: those of the connection's lane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <verbatim/core/deadline.hpp>
#include <verbatim/core/registration_cache.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

// Memory of the lender that its peer may touch; for the peer.
struct RemoteExtent {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t remote_key = 0;
    std::uint32_t reserved = 0;
};

class Connection;
class LocalMemory;
struct GrantTerms;
struct LentMemory;

// Whether the peer is told of a grant's end: its prepared operations become invalid by that.
enum class EndNotice : bool { none, sent };

class Grant {
  public:
    Grant() noexcept = default;
    // Lends `memory`, which lies in an arena of the connection's context. `access`: what the
    // peer may do there. `owner` is kept until the grant has ended, in whatever thread that
    // happens; without an owner the caller keeps the memory until has_ended(). Blocks until the
    // device has opened the windows, and drives the lane meanwhile; in a handler they open before
    // the next message. Throws Error: invalid_argument (outside of the arenas, or nothing to
    // lend), would_deadlock (a full queue in a handler), out_of_memory, what the device says that
    // has no such windows, the connection's end.
    Grant(Connection& connection, std::span<std::byte> memory, Access access,
          std::shared_ptr<void> owner = nullptr, EndNotice notice = EndNotice::sent);
    // The same, and never blocks: the peer may be told of it by a message once is_ready().
    static Grant begin(Connection& connection, std::span<std::byte> memory, Access access,
                       std::shared_ptr<void> owner = nullptr, EndNotice notice = EndNotice::sent);
    // Lends memory under a lease, which has RegistrationCache::kLendable and is kept until the
    // grant has ended. Throws as above; invalid_argument: the lease does not cover or allow that.
    Grant(Connection& connection, Registered lease, std::span<std::byte> memory, Access access,
          EndNotice notice = EndNotice::sent);
    static Grant begin(Connection& connection, Registered lease, std::span<std::byte> memory,
                       Access access, EndNotice notice = EndNotice::sent);
    Grant(Grant&&) noexcept = default;
    Grant& operator=(Grant&& other) noexcept {
        if (this == &other) return *this;
        end();
        lent_ = std::move(other.lent_);
        return *this;
    }
    ~Grant() { end(); }

    // It lends, or has lent, something.
    explicit operator bool() const noexcept { return lent_ != nullptr; }
    // What the peer must know: addresses, lengths and keys, in the order of the memory. They work
    // at once; those of begin() for requests that follow a message which is sent from now on, once
    // is_ready().
    std::span<const RemoteExtent> extents() const noexcept;
    bool is_ready() const noexcept;

    // Begins the end; more than once does no harm. Requests of the peer that come from now on fail,
    // with an error at the peer, and end the connection there. Never blocks.
    void end() noexcept;
    // Nothing of the peer can land in the memory any more. The owner is let go with that. Polls of
    // the lane bring it about; also after the connection's end.
    bool has_ended() const noexcept;
    // Ends it, and waits for that. Drives the lane. Throws Error: timeout (a process is stopped in
    // the middle of a copy: the memory is not free), would_deadlock (in a handler).
    void wait_end(Deadline deadline);

  private:
    static Grant begin(Connection& connection, const LocalMemory& local,
                       std::span<std::byte> memory, Access access, GrantTerms terms);
    void wait_open(Connection& connection);
    std::shared_ptr<LentMemory> lent_;
};

}  // namespace verbatim
