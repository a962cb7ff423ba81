// The public face of one-sided operations.
#include <verbatim/core/one_sided.hpp>

#include "../connection/waiting.hpp"

namespace verbatim {
namespace {

template <class Attempt>
Errc accept(Connection::Impl& impl, Operation& operation, Attempt attempt) noexcept {
    const auto guard = enter(impl);
    return post_one_sided(impl, [&](OneSidedRequests& requests) {
        const Errc error = attempt(requests);
        operation.number = requests.last();
        return error;
    });
}

// `local`: of as many bytes as the peer's memory. A write only reads it.
Errc accept_transfer(Connection::Impl& impl, mlx5::Opcode opcode, const LocalSpan<std::byte>& local,
                     const RemoteExtent& remote, Operation& operation) noexcept {
    const std::span<std::byte> bytes = local.elements();
    if (bytes.empty() || bytes.size() != remote.bytes) return Errc::invalid_argument;
    return accept(impl, operation, [&](OneSidedRequests& requests) {
        return requests.try_transfer({opcode,
                                      true,
                                      bytes.data(),
                                      bytes.size(),
                                      {remote.address, remote.remote_key},
                                      local.region()},
                                     operation.done);
    });
}

// Eight bytes at both ends, each at a multiple of eight.
bool is_word(const RemoteSpan<std::uint64_t>& word, const std::uint64_t* before) noexcept {
    return word.size() == 1 && word.extent().address % sizeof(std::uint64_t) == 0 &&
           reinterpret_cast<std::uintptr_t>(before) % sizeof(std::uint64_t) == 0;
}

Errc accept_atomic(Connection::Impl& impl, const AtomicOperands& operands,
                   const RemoteSpan<std::uint64_t>& word, std::uint64_t* before,
                   Operation& operation) noexcept {
    if (!is_word(word, before)) return Errc::invalid_argument;
    return accept(impl, operation, [&](OneSidedRequests& requests) {
        return requests.try_atomic(operands, reinterpret_cast<std::byte*>(before),
                                   {word.extent().address, word.extent().remote_key});
    });
}

}  // namespace

Errc OneSided::read_bytes(const RemoteExtent& from, const LocalSpan<std::byte>& into,
                          Operation& operation) noexcept {
    return accept_transfer(impl_, mlx5::Opcode::read, into, from, operation);
}

Errc OneSided::write_bytes(const LocalSpan<const std::byte>& from, const RemoteExtent& to,
                           Operation& operation) noexcept {
    const std::span<const std::byte> bytes = from.elements();
    const std::span local(const_cast<std::byte*>(bytes.data()), bytes.size());
    return accept_transfer(impl_, mlx5::Opcode::write, {local, from.region()}, to, operation);
}

Errc OneSided::try_read_all(std::span<const RemoteRead> reads, Operation& operation) noexcept {
    if (reads.empty()) return Errc::invalid_argument;
    return accept(impl_, operation, [&](OneSidedRequests& requests) {
        return requests.try_read_all(reads, operation.done);
    });
}

Errc OneSided::try_compare_swap(RemoteSpan<std::uint64_t> word, std::uint64_t expected,
                                std::uint64_t desired, std::uint64_t* before,
                                Operation& operation) noexcept {
    return accept_atomic(
        impl_, {.opcode = mlx5::Opcode::compare_swap, .compare = expected, .swap_or_add = desired},
        word, before, operation);
}

Errc OneSided::try_fetch_add(RemoteSpan<std::uint64_t> word, std::uint64_t addend,
                             std::uint64_t* before, Operation& operation) noexcept {
    return accept_atomic(impl_, {.opcode = mlx5::Opcode::fetch_add, .swap_or_add = addend}, word,
                         before, operation);
}

Errc OneSided::try_swap(RemoteSpan<std::uint64_t> word, std::uint64_t desired,
                        std::uint64_t* before, Operation& operation, std::uint64_t mask) noexcept {
    return accept_atomic(
        impl_,
        {.opcode = mlx5::Opcode::masked_compare_swap, .swap_or_add = desired, .swap_mask = mask},
        word, before, operation);
}

Errc OneSided::result(const Operation& operation) const noexcept {
    const auto guard = enter(impl_);
    return impl_.judge(impl_.one_sided.outcome(operation.number));
}

void OneSided::add(OutcomeWaiter& waiter) noexcept {
    const auto guard = enter(impl_);
    impl_.one_sided.waiters().add(waiter);
    impl_.lane->pending().add(impl_.member);
}

void OneSided::remove(const OutcomeWaiter& waiter) noexcept {
    impl_.one_sided.waiters().remove(waiter);
}

void OneSided::check_may_wait() const { refuse_in_handler(impl_); }

void OneSided::wait_for_room(unsigned round, Errc error, Deadline deadline) {
    const auto guard = enter(impl_);
    if (error == Errc::invalid_argument)
        throw Error(error, "one-sided operation to " + impl_.channel.name(),
                    "its local memory is in no arena of the context and under no lease, or its "
                    "length is 0 or not the remote one's",
                    "allocate it in connection.arena(), or take a lease of a RegistrationCache");
    if (error != Errc::would_block) raise(impl_, error);
    wait_once(impl_, round, deadline);
}

void OneSided::wait(const Operation& operation, Deadline deadline) {
    const auto guard = enter(impl_);
    wait_for(impl_, deadline, [&] { return result(operation); });
}

}  // namespace verbatim
