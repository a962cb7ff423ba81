// A prepared operation is a one-sided operation that is encoded once and executed many times.
// Source: jVerbs §5.3 and table 2, stateful verb calls: valid, execute, result, free. Offsets may
// change with each execution, and local memory between them; nothing may extend what was prepared.
//
// It becomes invalid for good by free(), by the end or a move of the connection, and by the end of
// a grant that it uses: the lender tells of that through the message ring, so polls of the lane
// notice it once the messages before it were taken. It may outlive the connection. Threads: the
// lane's. Preparing allocates and may throw; executing does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>

#include <verbatim/core/one_sided.hpp>

namespace verbatim {

class PreparedOperation {
  public:
    struct State;

    bool valid() const noexcept;
    // Of the most recent execution, as OneSided::result(). invalid_argument: there was none. A list
    // that was accepted in part: would_block; invalid_prepared where it can never go on.
    Errc result() const noexcept;
    // The same execution for OneSided::wait() and result().
    Operation last() const noexcept;
    // Ends it before its destructor does. What was executed goes on.
    void free() noexcept { state_.reset(); }

  protected:
    struct End {
        void operator()(State* state) const noexcept;
    };
    PreparedOperation() noexcept = default;
    PreparedOperation(PreparedOperation&&) noexcept = default;
    PreparedOperation& operator=(PreparedOperation&&) noexcept = default;
    ~PreparedOperation() = default;
    static Connection::Impl& connection_of(const OneSided& one_sided) noexcept {
        return one_sided.impl_;
    }

    std::unique_ptr<State, End> state_;
};

// A read or a write of so many bytes, at an offset that each execution names.
class PreparedTransfer : public PreparedOperation {
  protected:
    // `window`: what an execution may reach, from each multiple of `step` bytes on. `local`: the
    // bytes of one execution.
    enum class Direction : bool { read, write };
    PreparedTransfer(const OneSided& one_sided, Direction direction, const RemoteExtent& window,
                     std::span<const std::byte> local, std::size_t step);
    Errc execute_read(std::size_t first) noexcept;
    Errc execute_write(std::size_t first) noexcept;
    Errc set_local_bytes(std::span<const std::byte> local) noexcept;
};

// Errors of all constructors (Error): peer_lost (the connection has ended), invalid_argument where
// the operation can be no single request: it has no bytes, its local memory lies in no arena or
// over the end of a segment, or the span has fewer elements. Errors of execute(), each without an
// effect: would_block (poll and try again), invalid_prepared, invalid_argument (beyond the span),
// the connection's end.
template <class T>
class PreparedRead : public PreparedTransfer {
  public:
    // Reads into.size() elements of `from`.
    PreparedRead(const OneSided& one_sided, RemoteSpan<T> from, std::span<T> into)
        : PreparedTransfer(one_sided, Direction::read, from.extent(), std::as_bytes(into),
                           sizeof(T)) {}
    // From element `first` on.
    Errc execute(std::size_t first = 0) noexcept { return execute_read(first); }
    // Other local memory of that size, in the same segment of the arena. invalid_argument else.
    Errc set_local(std::span<T> into) noexcept { return set_local_bytes(std::as_bytes(into)); }
};

template <class T>
class PreparedWrite : public PreparedTransfer {
  public:
    // Writes from.size() elements to `to`.
    PreparedWrite(const OneSided& one_sided, std::span<const T> from, RemoteSpan<T> to)
        : PreparedTransfer(one_sided, Direction::write, to.extent(), std::as_bytes(from),
                           sizeof(T)) {}
    Errc execute(std::size_t first = 0) noexcept { return execute_write(first); }
    Errc set_local(std::span<const T> from) noexcept {
        return set_local_bytes(std::as_bytes(from));
    }
};

// Adds to word `index` of the span. `before` gets the word as it was.
class PreparedFetchAdd : public PreparedOperation {
  public:
    PreparedFetchAdd(const OneSided& one_sided, RemoteSpan<std::uint64_t> words,
                     std::uint64_t* before);
    Errc execute(std::uint64_t addend, std::size_t index = 0) noexcept;
};

class PreparedCompareSwap : public PreparedOperation {
  public:
    PreparedCompareSwap(const OneSided& one_sided, RemoteSpan<std::uint64_t> words,
                        std::uint64_t* before);
    Errc execute(std::uint64_t expected, std::uint64_t desired, std::size_t index = 0) noexcept;
};

// Many reads, each with its own address, key and local memory, under as few doorbells as the send
// queue allows (jVerbs §7.2, multi-get). It is invalid when one of its grants has ended.
class PreparedReads : public PreparedOperation {
  public:
    PreparedReads(const OneSided& one_sided, std::span<const RemoteRead> reads);
    std::size_t size() const noexcept;
    // Replaces one read. invalid_argument: there is no such one, or it can be no single request.
    // would_block: an execution was accepted in part.
    Errc set(std::size_t index, const RemoteRead& read) noexcept;
    // would_block: some were accepted, or none; poll, and call it again. result() is that of all.
    Errc execute() noexcept;
};

}  // namespace verbatim
