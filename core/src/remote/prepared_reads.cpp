// Prepared lists of reads.
#include <string>
#include <vector>

#include <verbatim/core/prepared.hpp>

#include "prepared_state.hpp"

namespace verbatim {
namespace {

struct ListState final : PreparedOperation::State {
    using State::State;
    std::vector<PreparedTarget> reads;
    std::size_t done = 0;  // of the execution under way
};

ListState& list_of(PreparedOperation::State& state) noexcept {
    return static_cast<ListState&>(state);
}

}  // namespace

PreparedReads::PreparedReads(const OneSided& one_sided, std::span<const RemoteRead> reads) {
    Connection::Impl& of = connection_of(one_sided);
    const auto guard = enter(of);
    refuse_to_prepare(of);
    auto state = std::make_unique<ListState>(of);
    state->reads.resize(reads.size());
    Errc error = reads.empty() ? Errc::invalid_argument : Errc::ok;
    std::size_t at = 0;
    for (; at < reads.size() && error == Errc::ok; ++at)
        error = of.one_sided.prepare(reads[at].from, reads[at].into, state->reads[at]);
    if (error != Errc::ok)
        throw Error(error, "prepared list of " + std::to_string(reads.size()) + " reads",
                    "number " + std::to_string(at) + " can be no single request",
                    "name local memory of an arena, not empty and within one segment");
    state->targets = state->reads;
    state->enlist();
    state_.reset(state.release());
}

std::size_t PreparedReads::size() const noexcept {
    return state_ == nullptr ? 0 : state_->targets.size();
}

Errc PreparedReads::set(std::size_t index, const RemoteRead& read) noexcept {
    if (!valid()) return State::refusal_of(state_.get());
    if (index >= size()) return Errc::invalid_argument;
    if (list_of(*state_).done != 0) return Errc::would_block;
    PreparedTarget& target = state_->targets[index];
    return state_->connection->one_sided.prepare(read.from, read.into, target);
}

Errc PreparedReads::execute() noexcept {
    if (!valid()) return State::refusal_of(state_.get());
    ListState& list = list_of(*state_);
    const auto guard = enter(*list.connection);
    return post_one_sided(*list.connection, [&](OneSidedRequests& requests) {
        const std::size_t before = list.done;
        const Errc error = requests.try_read_targets(list.reads, list.done);
        if (list.done != before) list.number = requests.last();
        if (error == Errc::ok) list.done = 0;
        list.is_partial = list.done != 0;
        return error;
    });
}

}  // namespace verbatim
