// Prepared one-sided operations.
#include <verbatim/core/prepared.hpp>

#include <array>
#include <string>

#include "prepared_state.hpp"

namespace verbatim {
namespace {

using Opcode = mlx5::Opcode;
using Read = SingleState<mlx5::Prepared<Opcode::read, mlx5::Gather<1>>>;
using Write = SingleState<mlx5::Prepared<Opcode::write, mlx5::Gather<1>>>;
using FetchAdd = SingleState<mlx5::Prepared<Opcode::fetch_add, mlx5::Addend>>;
using CompareSwap = SingleState<mlx5::Prepared<Opcode::compare_swap, mlx5::Exchange>>;

[[noreturn]] void refuse_prepared(Errc code, std::string cause, std::string remedy) {
    throw Error(code, "prepared operation", std::move(cause), std::move(remedy));
}

// The target of an operation on `window`, which uses its first `local.size()` bytes.
PreparedTarget target_of(Connection::Impl& connection, RemoteExtent window,
                         std::span<const std::byte> local) {
    refuse_to_prepare(connection);
    if (local.size() > window.bytes)
        refuse_prepared(Errc::invalid_argument, "the span has fewer bytes than local memory",
                        "prepare it for part of the local memory");
    window.bytes = local.size();
    PreparedTarget target;
    const Errc error = connection.one_sided.prepare(window, local.data(), target);
    if (error != Errc::ok)
        refuse_prepared(error, "it can be no single request",
                        "name local memory of an arena, not empty and within one segment");
    return target;
}

// Of memory of both sides, at each `step` bytes.
struct Places {
    const RemoteExtent& window;
    std::span<const std::byte> local;
    std::size_t step;
};

template <class State>
std::unique_ptr<State> make_single(Connection::Impl& connection, Opcode opcode,
                                   const Places& places) {
    const auto guard = enter(connection);
    const PreparedTarget target = target_of(connection, places.window, places.local);
    auto state = std::make_unique<State>(connection,
                                         mlx5::WorkRequest{.opcode = opcode,
                                                           .remote_address = target.remote.address,
                                                           .remote_key = target.remote.key,
                                                           .elements = {&target.local, 1}});
    state->target = target;
    state->targets = {&state->target, 1};
    state->step = places.step;
    state->last_place = (places.window.bytes - places.local.size()) / places.step;
    state->enlist();
    return state;
}

template <class State>
std::unique_ptr<State> make_atomic(Connection::Impl& connection, Opcode opcode,
                                   RemoteSpan<std::uint64_t> words, std::uint64_t* before) {
    const auto bytes = std::as_bytes(std::span(before, 1));
    if (reinterpret_cast<std::uintptr_t>(before) % sizeof *before != 0 ||
        words.extent().address % sizeof *before != 0)
        refuse_prepared(Errc::invalid_argument, "a word is not aligned", "align it to 8 bytes");
    return make_single<State>(connection, opcode, {words.extent(), bytes, sizeof *before});
}

template <class State>
Errc execute_transfer(PreparedOperation::State* state, std::size_t first) noexcept {
    if (state == nullptr) return Errc::invalid_prepared;
    auto& single = static_cast<State&>(*state);
    return single.execute(first, [&](std::uint32_t) { return single.target.local.address; });
}

template <class State, class Operands>
Errc execute_atomic(PreparedOperation::State* state, std::size_t index,
                    const Operands& operands) noexcept {
    if (state == nullptr) return Errc::invalid_prepared;
    return static_cast<State&>(*state).execute(index, operands);
}

}  // namespace

void PreparedOperation::End::operator()(State* state) const noexcept { delete state; }

bool PreparedOperation::valid() const noexcept {
    return state_ != nullptr && state_->may_execute();
}

Operation PreparedOperation::last() const noexcept {
    return {.number = state_ == nullptr ? 0 : state_->number};
}

Errc PreparedOperation::result() const noexcept {
    if (state_ == nullptr || state_->number == 0) return Errc::invalid_argument;
    const Errc outcome = state_->latest();
    if (outcome != Errc::ok || !state_->is_partial) return outcome;
    return state_->valid ? Errc::would_block : Errc::invalid_prepared;
}

PreparedTransfer::PreparedTransfer(const OneSided& one_sided, Direction direction,
                                   const RemoteExtent& window, std::span<const std::byte> local,
                                   std::size_t step) {
    Connection::Impl& of = connection_of(one_sided);
    const Places places{window, local, step};
    if (direction == Direction::read)
        state_.reset(make_single<Read>(of, Opcode::read, places).release());
    else
        state_.reset(make_single<Write>(of, Opcode::write, places).release());
}

Errc PreparedTransfer::execute_read(std::size_t first) noexcept {
    return execute_transfer<Read>(state_.get(), first);
}

Errc PreparedTransfer::execute_write(std::size_t first) noexcept {
    return execute_transfer<Write>(state_.get(), first);
}

// Reads and writes are told apart by their encoded request only.
Errc PreparedTransfer::set_local_bytes(std::span<const std::byte> local) noexcept {
    if (!valid()) return State::refusal_of(state_.get());
    mlx5::Element& element = state_->targets[0].local;
    PreparedTarget other;
    if (local.size() != element.bytes) return Errc::invalid_argument;
    const Errc error =
        state_->connection->one_sided.prepare({0, local.size(), 0, 0}, local.data(), other);
    if (error != Errc::ok) return error;
    if (other.local.local_key != element.local_key) return Errc::invalid_argument;
    element.address = other.local.address;
    return Errc::ok;
}

PreparedFetchAdd::PreparedFetchAdd(const OneSided& one_sided, RemoteSpan<std::uint64_t> words,
                                   std::uint64_t* before) {
    state_.reset(make_atomic<FetchAdd>(connection_of(one_sided), Opcode::fetch_add, words, before)
                     .release());
}

Errc PreparedFetchAdd::execute(std::uint64_t addend, std::size_t index) noexcept {
    return execute_atomic<FetchAdd>(state_.get(), index, addend);
}

PreparedCompareSwap::PreparedCompareSwap(const OneSided& one_sided, RemoteSpan<std::uint64_t> words,
                                         std::uint64_t* before) {
    state_.reset(
        make_atomic<CompareSwap>(connection_of(one_sided), Opcode::compare_swap, words, before)
            .release());
}

Errc PreparedCompareSwap::execute(std::uint64_t expected, std::uint64_t desired,
                                  std::size_t index) noexcept {
    return execute_atomic<CompareSwap>(state_.get(), index,
                                       mlx5::Exchange::Values{expected, desired});
}

}  // namespace verbatim
