// A connection has one reliable queue pair, a message ring in each direction, and a TCP side
// channel that reports the peer's end. Made by Context::connect and Listener::accept. Threads: one
// thread at a time per connection (checked in debug builds); different connections are independent.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/config.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {

using Clock = std::chrono::steady_clock;

// A point in time at which a blocking call gives up with Errc::timeout.
struct Deadline {
    Clock::time_point when = Clock::time_point::max();
    static Deadline never() noexcept { return {}; }
    static Deadline after(Clock::duration d) noexcept { return {Clock::now() + d}; }
    bool passed() const noexcept {
        return when != Clock::time_point::max() && Clock::now() >= when;
    }
    // The same in the nth round of a wait. Reading the clock costs as much as a poll: this reads it
    // seldom while the caller spins, always once it sleeps.
    bool passed(unsigned round) const noexcept {
        return (round % 16 == 0 || round > 256) && passed();
    }
};

// A received message: a view into the ring, valid until release_message().
struct Message {
    std::uint8_t kind =
        0;  // 0 .. 13, the sender's; below 8 for applications, 8 and up for verbatim's own layers
    std::span<const std::byte> payload;
};

// Memory of the receiver that the peer may write.
struct RemoteExtent {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint32_t remote_key = 0;
    std::uint32_t reserved = 0;
};

class Connection {
  public:
    struct Impl;
    explicit Connection(std::unique_ptr<Impl> impl) noexcept;
    Connection(Connection&&) noexcept;
    Connection& operator=(Connection&&) noexcept;
    ~Connection();  // closes: drains accepted requests, then tells the peer

    // ---- messages (data path: no allocation, lock, system call or exception) ----
    // Copies head and then body into one message. would_block: the peer's ring or the send queue is
    // full.
    Errc try_send(std::uint8_t kind, std::span<const std::byte> head,
                  std::span<const std::byte> body = {}) noexcept;
    // The next application message (kind below 8), or would_block. Also would_block while a message
    // is held; invalid_argument if the next message belongs to a layer above (an object graph):
    // call that layer.
    Errc try_receive(Message& message) noexcept;
    // For layers above: the next message of any kind, past those that were set aside.
    Errc try_receive_any(Message& message) noexcept;
    // For layers above: keeps a copy of the held application message for try_receive and releases
    // it. So the messages behind it can be received. Allocates. would_block: 16 MiB are kept
    // already; it is the next message again, for try_receive to make room.
    Errc set_aside_message();
    // A message was received and not yet released: nothing behind it can be received.
    bool holds_message() const noexcept;
    // Gives the held message's space back to the sender.
    void release_message() noexcept;
    std::size_t max_message_bytes() const noexcept;

    // Blocking forms; throw Error(timeout | peer_lost | ...). The wait spins, then sleeps (config
    // [wait]).
    void send_message(std::uint8_t kind, std::span<const std::byte> head,
                      std::span<const std::byte> body, Deadline deadline);
    Message receive_message(Deadline deadline);

    // ---- one-sided writes ----
    // Writes [from, from + bytes), which lies in arena(), to the peer, split at segment and device
    // limits. would_block: the send queue is full; `written` is the number of leading bytes that
    // were accepted.
    Errc try_write(const std::byte* from, std::size_t bytes, std::uint64_t remote_address,
                   std::uint32_t remote_key, std::size_t& written) noexcept;
    // would_block until every accepted write has retired; then ok, or the first error.
    Errc try_flush() noexcept;

    // Polls completions and the side channel once. Returns the connection's state: ok, or the
    // reason of its end.
    Errc progress() noexcept;
    // Waits a little as [wait] says: spins first, then sleeps; `round` counts calls since the last
    // success.
    void pause(unsigned round) noexcept;
    Errc state() const noexcept;
    // Throws the Error that belongs to state() if it is not ok.
    void check() const;

    // ---- memory ----
    Arena&
    arena() noexcept;  // the context's: objects that are sent from where they lie; local access
    // The context's arena for received graphs; alive as long as the shared_ptr.
    Arena& receive_arena() noexcept;
    std::shared_ptr<Arena> arena_ptr() noexcept;
    std::shared_ptr<Arena> receive_arena_ptr() noexcept;
    // Keys for [p, p + bytes) in the receive arena, split at segment borders; returns the number of
    // keys written.
    std::size_t lend(const std::byte* p, std::size_t bytes, std::span<RemoteExtent> extents);

    const Config& config() const noexcept;          // the context's
    const std::string& peer_name() const noexcept;  // "127.0.0.1:40312"
    // A place for the layers above to keep per-connection state (types already described, scratch
    // memory).
    std::shared_ptr<void>& attachment() noexcept;
    // True after a clean close by the peer, when all its messages were received.
    bool peer_closed() const noexcept;

  private:
    std::unique_ptr<Impl> impl_;
};

}  // namespace verbatim
