// A byte stream over a connection: what is written in any pieces is read in any pieces, in order.
// Source: hadroNIO (Ruhland §3), which gives sockets to Java programs in this way.
// docs/messages.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/send_request.hpp>

namespace verbatim {

class StreamLayer;

// The stream of a connection, in both directions; several such objects share it. Must not outlive
// the connection. Threads: the lane's.
class Stream {
  public:
    // Bytes that wait unread at the receiver, at most.
    static constexpr std::size_t kWindow = std::size_t{256} << 10;

    // Both sides make one. The first one measures what lending costs, and drives the lane for that.
    // Throws Error(invalid_argument): another layer has the channel.
    explicit Stream(Connection& connection);

    // Requests of so many bytes and more are lent; as measured, unless it is set.
    std::size_t lend_from() const noexcept;
    void set_lend_from(std::size_t bytes) noexcept;

    // -- Data path --
    // `written`: as many leading bytes as there was room for. would_block: none.
    // invalid_argument: the direction was finished.
    Errc try_write(std::span<const std::byte> bytes, std::size_t& written) noexcept;
    // The bytes leave from where they lie, in an arena, if that costs less than copying.
    // would_block: call again with this request before others are written. ok: accepted; its result
    // tells when the peer has read them. invalid_argument: it was accepted before. Allocates where
    // it does not copy.
    Errc try_write(SendRequest& request) noexcept;
    // `read`: as many bytes as had come, and as `into` takes; ok and 0 at the end of the stream.
    // would_block: none have come. protocol_error; the connection's end, after the last byte.
    Errc try_read(std::span<std::byte> into, std::size_t& read) noexcept;
    // No byte follows: the peer reads 0 then. would_block: the ring is full.
    Errc try_finish() noexcept;
    // Bytes that have come and were not read.
    std::size_t readable() const noexcept;

    // -- Blocking forms. They drive the lane. Throw Error: timeout, would_deadlock, the end. --
    void write(std::span<const std::byte> bytes, Deadline deadline);
    // Until the peer has read them.
    void write(SendRequest& request, Deadline deadline);
    // At least one byte, 0 at the end of the stream. Lent bytes go straight into memory of an
    // arena, if there is room for 16 KiB.
    std::size_t read(std::span<std::byte> into, Deadline deadline);
    void finish(Deadline deadline);

  private:
    Connection::Impl& impl_;
    std::shared_ptr<StreamLayer> layer_;
};

}  // namespace verbatim
