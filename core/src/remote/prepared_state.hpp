// The state of prepared operations: the encoded request, and its target.
// Owner: the handle; the connection lists it. Threads: the lane's.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/core/prepared.hpp>

#include "../connection/waiting.hpp"

namespace verbatim {

// Throws Error(peer_lost), or what a forked child is told: nothing can be prepared any more.
inline void refuse_to_prepare(const Connection::Impl& connection) {
    if (connection.lane->polled().is_inherited()) connection.check();
    if (connection.handle == nullptr || connection.has_ended())
        throw Error(Errc::peer_lost, "prepared operation", "its connection has ended",
                    "connect again");
}

struct PreparedOperation::State : PreparedLink {
    explicit State(Connection::Impl& of) noexcept : connection(&of) {}
    virtual ~State() {
        if (is_listed && !is_inherited()) connection->one_sided.prepared().remove(*this);
    }
    // From now on polls take the peer's notices, whether or not the program takes messages.
    void enlist() noexcept {
        connection->one_sided.prepared().add(*this);
        connection->dispatcher.watch();
    }

    // It is the parent's: a forked child must not ring that one's doorbells.
    bool is_inherited() const noexcept { return generation != fork_generation(); }
    bool may_execute() const noexcept { return valid && !is_inherited(); }
    // Why it may not; null: nothing was prepared.
    static Errc refusal_of(const State* state) noexcept {
        return state != nullptr && state->is_inherited() ? Errc::permission_denied
                                                         : Errc::invalid_prepared;
    }

    // Outcome of the last request. It may end the connection.
    Errc latest() const noexcept {
        if (!is_listed) return outcome;
        const auto guard = enter(*connection);
        return connection->judge(connection->one_sided.outcome(number));
    }

    Connection::Impl* connection;  // while it is listed
    const std::uint64_t generation = fork_generation();
};

// Of one request, whose remote memory is one of the places that follow `target.remote` at each
// `step` bytes.
template <class Request>
struct SingleState final : PreparedOperation::State {
    SingleState(Connection::Impl& of, const mlx5::WorkRequest& request)
        : State(of), request_(of.one_sided.queue(), request) {}

    // At the place of that number.
    template <class Payload>
    Errc execute(std::size_t place, const Payload& payload) noexcept {
        if (!may_execute()) [[unlikely]]
            return refusal_of(this);
        if (place > last_place) [[unlikely]]
            return Errc::invalid_argument;
        [[maybe_unused]] const auto guard = connection->lane->enter();
        // Messages come before what follows them.
        MessageRing& ring = connection->member.ring();
        if (!ring.has_posted_all()) [[unlikely]]
            if (const Errc error = ring.post_waiting(); error != Errc::ok)
                return connection->judge(error);
        const std::uint64_t at = target.remote.address + place * step;  // the key was encoded
        const Errc error =
            connection->one_sided.try_prepared(request_, at, payload, target.local.bytes);
        if (error != Errc::ok) [[unlikely]]
            return connection->judge(error);
        number = connection->one_sided.last();
        return Errc::ok;
    }

    PreparedTarget target;
    std::uint64_t step = 1, last_place = 0;

  private:
    Request request_;
};

}  // namespace verbatim
