// One-sided operations read, write and change memory that the peer of a connection has lent. The
// peer's program takes no part in them. Source: jVerbs §5.1 (RDMA operations), §7.2 (multi-get).
//
// Local memory lies in arena() or receive_arena(), and belongs to the device until the operation is
// done. Operations of a connection, its messages among them, take effect in the order of their
// posting; a read may see what writes behind it have changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/remote_span.hpp>

namespace verbatim {

// An operation under way. A new one for each; would_block keeps what of it was accepted already.
struct Operation {
    std::uint64_t number = 0;  // of its last request
    std::size_t done = 0;      // bytes, or reads of a list, that were accepted
};

// Threads: the lane's. Must not outlive the connection.
class OneSided {
  public:
    explicit OneSided(Connection& connection) noexcept : impl_(*connection.impl_) {}

    // ---- data path ----
    // Each accepts an operation: ok. would_block: the send queue is full; poll, and call again with
    // the same arguments. invalid_argument, without an effect: the sizes differ or are 0, the local
    // memory is in no arena, a word is not aligned. Other errors: the connection has ended.
    template <class T>
    Errc try_read(RemoteSpan<T> from, std::span<std::remove_const_t<T>> into,
                  Operation& operation) noexcept {
        return read_bytes(from.extent(), std::as_writable_bytes(into), operation);
    }
    template <class T>
    Errc try_write(std::span<const T> from, RemoteSpan<T> to, Operation& operation) noexcept {
        return write_bytes(std::as_bytes(from), to.extent(), operation);
    }
    // Many reads under few doorbells, each with one completion. The operation is done when all are.
    // Of those in front of one that is refused, some have been accepted.
    Errc try_read_all(std::span<const RemoteRead> reads, Operation& operation) noexcept;
    // Atomic among themselves for all requests of the lender's device. `before` gets the word as it
    // was. unsupported: the device has no such atomic.
    Errc try_compare_swap(RemoteSpan<std::uint64_t> word, std::uint64_t expected,
                          std::uint64_t desired, std::uint64_t* before,
                          Operation& operation) noexcept;
    Errc try_fetch_add(RemoteSpan<std::uint64_t> word, std::uint64_t addend, std::uint64_t* before,
                       Operation& operation) noexcept;
    // Sets the bits of `mask`.
    Errc try_swap(RemoteSpan<std::uint64_t> word, std::uint64_t desired, std::uint64_t* before,
                  Operation& operation, std::uint64_t mask = ~std::uint64_t{0}) noexcept;
    // would_block: it is not done; poll the lane. ok: it is. Else why it failed: remote_access
    // where the grant has ended or does not allow it, and the connection ends with that.
    Errc result(const Operation& operation) const noexcept;

    // ---- blocking forms ----
    // They drive the lane. Throw Error: timeout (the device may still use the local memory, until
    // the connection has ended), would_deadlock, and as above.
    template <class T>
    void read(RemoteSpan<T> from, std::span<std::remove_const_t<T>> into, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_read(from, into, one); });
    }
    template <class T>
    void write(std::span<const T> from, RemoteSpan<T> to, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_write(from, to, one); });
    }
    void read_all(std::span<const RemoteRead> reads, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_read_all(reads, one); });
    }
    // Waits until it is done.
    void wait(const Operation& operation, Deadline deadline);

  private:
    Errc read_bytes(const RemoteExtent& from, std::span<std::byte> into,
                    Operation& operation) noexcept;
    Errc write_bytes(std::span<const std::byte> from, const RemoteExtent& to,
                     Operation& operation) noexcept;
    void wait_for_room(unsigned round, Errc error, Deadline deadline);
    template <class Attempt>
    void run(Deadline deadline, Attempt attempt) {
        Operation operation;
        Errc error = Errc::ok;
        for (unsigned round = 0; (error = attempt(operation)) != Errc::ok; ++round)
            wait_for_room(round, error, deadline);
        wait(operation, deadline);
    }

    Connection::Impl& impl_;
};

}  // namespace verbatim
