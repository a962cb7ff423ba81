// A sender sends messages of a connection from any thread. They go through a bounded queue to the
// thread of the connection's lane, which posts them with its polls. It must poll or sleep: see
// "Senders without a poller" in docs/lanes.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/driver/error.hpp>

namespace verbatim {

// Made by Connection::sender(). Copies are the same sender. Threads: any; messages of one thread
// keep their order. Data path: no allocation, lock or exception; a system call only where the lane
// sleeps.
class Sender {
  public:
    class Impl;
    explicit Sender(std::shared_ptr<Impl> impl) noexcept;

    // Copies head and body into one message. would_block: the queue is full, as the lane does not
    // poll, or the peer does not receive. message_too_large: see max_message_bytes().
    // invalid_argument: a kind above 15, or a channel above 239. Otherwise the connection's end,
    // after which nothing is accepted. What was accepted before that, and not posted, is dropped
    // with the connection.
    Errc try_send(std::uint8_t channel, std::span<const std::byte> head,
                  std::span<const std::byte> body = {}, std::uint8_t kind = 0) const noexcept;
    std::size_t max_message_bytes() const noexcept;

  private:
    std::shared_ptr<Impl> impl_;
};

}  // namespace verbatim
