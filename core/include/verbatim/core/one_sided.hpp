// One-sided operations read, write and change memory that the peer of a connection has lent. The
// peer's program takes no part in them. Source: jVerbs §5.1 (RDMA operations), §7.2 (multi-get).
//
// Local memory lies in an arena of the context, or under a lease of a RegistrationCache, and
// belongs to the device until the operation is done. Operations of a connection, its messages among
// them, take effect in the order of their posting; a read may see what writes behind it have
// changed.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/local_span.hpp>
#include <verbatim/core/outcome_waiter.hpp>
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
    // memory is in no arena and under no lease, a word is not aligned. Where T is deduced from the
    // remote span, local memory may be a std::span or a LocalSpan. Other errors: the connection has
    // ended.
    template <class T>
    Errc try_read(RemoteSpan<T> from, LocalSpan<std::remove_const_t<T>> into,
                  Operation& operation) noexcept {
        const auto bytes = std::as_writable_bytes(into.elements());
        return read_bytes(from.extent(), {bytes, into.region()}, operation);
    }
    template <class T>
    Errc try_write(std::type_identity_t<LocalSpan<const T>> from, RemoteSpan<T> to,
                   Operation& operation) noexcept {
        return write_bytes({std::as_bytes(from.elements()), from.region()}, to.extent(), operation);
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

    // ---- told by the lane's polls, as handlers are ----
    // `co_await async(attempt)` gives the outcome of one operation, which `attempt(Operation&)`
    // offers: again with each poll while there is no room. The coroutine goes on inside a poll.
    // WhenDone is the same with a callback. Neither allocates. A connection that ends tells all.
    template <class Attempt>
    auto async(Attempt attempt) noexcept;

    // ---- blocking forms ----
    // They drive the lane. Throw Error: would_deadlock (in a handler; nothing was posted), timeout
    // and peer_lost (the device may still use the local memory, until the connection is gone), and
    // as above.
    template <class T>
    void read(RemoteSpan<T> from, LocalSpan<std::remove_const_t<T>> into, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_read(from, into, one); });
    }
    template <class T>
    void write(std::type_identity_t<LocalSpan<const T>> from, RemoteSpan<T> to, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_write(from, to, one); });
    }
    void read_all(std::span<const RemoteRead> reads, Deadline deadline) {
        run(deadline, [&](Operation& one) { return try_read_all(reads, one); });
    }
    // Waits until it is done.
    void wait(const Operation& operation, Deadline deadline);

  private:
    template <class Attempt>
    friend class OfferedOperation;
    friend class PreparedOperation;
    // To tell it of its outcome, and not to.
    void add(OutcomeWaiter& waiter) noexcept;
    void remove(const OutcomeWaiter& waiter) noexcept;
    Errc read_bytes(const RemoteExtent& from, const LocalSpan<std::byte>& into,
                    Operation& operation) noexcept;
    Errc write_bytes(const LocalSpan<const std::byte>& from, const RemoteExtent& to,
                     Operation& operation) noexcept;
    void check_may_wait() const;
    void wait_for_room(unsigned round, Errc error, Deadline deadline);
    template <class Attempt>
    void run(Deadline deadline, Attempt attempt) {
        check_may_wait();  // before anything is posted
        Operation operation;
        Errc error = Errc::ok;
        for (unsigned round = 0; (error = attempt(operation)) != Errc::ok; ++round)
            wait_for_room(round, error, deadline);
        wait(operation, deadline);
    }

    Connection::Impl& impl_;
};

// An offered operation waits for room, then for its outcome.
template <class Attempt>
class OfferedOperation : public OutcomeWaiter {
  protected:
    OfferedOperation(OneSided& one_sided, Attempt attempt, Tell tell) noexcept
        : OutcomeWaiter(&step_of, tell), one_sided_(one_sided), attempt_(std::move(attempt)) {}
    ~OfferedOperation() {
        if (waits_) one_sided_.remove(*this);
    }
    // would_block: there is no outcome yet.
    Errc step() noexcept {
        if (!accepted_) {
            if (const Errc error = attempt_(operation_); error != Errc::ok) return error;
            accepted_ = true;
        }
        return one_sided_.result(operation_);
    }
    void wait() noexcept {
        waits_ = true;
        one_sided_.add(*this);
    }
    void is_told() noexcept { waits_ = false; }

  private:
    static Errc step_of(OutcomeWaiter& self) noexcept {
        return static_cast<OfferedOperation&>(self).step();
    }
    OneSided one_sided_;
    Attempt attempt_;
    Operation operation_;
    bool accepted_ = false, waits_ = false;
};

// Calls `done(Errc)` once, by a poll of the lane, or already in the constructor. It may end this
// object. Its end before that forgets the callback, not what was accepted.
template <class Attempt, class Done>
class WhenDone final : private OfferedOperation<Attempt> {
    using Base = OfferedOperation<Attempt>;

  public:
    WhenDone(OneSided& one_sided, Attempt attempt, Done done) noexcept
        : Base(one_sided, std::move(attempt), &tell), done_(std::move(done)) {
        if (const Errc outcome = Base::step(); outcome != Errc::would_block)
            done_(outcome);
        else
            Base::wait();
    }

  private:
    static void tell(OutcomeWaiter& self, Errc outcome) noexcept {
        auto& one = static_cast<WhenDone&>(self);
        one.is_told();
        one.done_(outcome);
    }
    Done done_;
};

// What OneSided::async() gives to co_await.
template <class Attempt>
class AwaitedOperation final : private OfferedOperation<Attempt> {
    using Base = OfferedOperation<Attempt>;

  public:
    AwaitedOperation(OneSided& one_sided, Attempt attempt) noexcept
        : Base(one_sided, std::move(attempt), &tell) {}
    bool await_ready() noexcept {
        outcome_ = Base::step();
        return outcome_ != Errc::would_block;
    }
    void await_suspend(std::coroutine_handle<> waiting) noexcept {
        waiting_ = waiting;
        Base::wait();
    }
    Errc await_resume() const noexcept { return outcome_; }

  private:
    static void tell(OutcomeWaiter& self, Errc outcome) noexcept {
        auto& one = static_cast<AwaitedOperation&>(self);
        one.is_told();
        one.outcome_ = outcome;
        one.waiting_.resume();
    }
    std::coroutine_handle<> waiting_;
    Errc outcome_ = Errc::would_block;
};

template <class Attempt>
auto OneSided::async(Attempt attempt) noexcept {
    return AwaitedOperation<Attempt>(*this, std::move(attempt));
}

}  // namespace verbatim
