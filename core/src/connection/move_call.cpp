// The call that moves a connection: its steps run in the threads of two lanes.
#include <optional>
#include <thread>

#include "../moving/lane_visit.hpp"
#include "connection_impl.hpp"

namespace verbatim {
namespace {

Reservation make_room_for_member(Lane::Impl& lane, const Config& config) {
    const std::size_t users = lane.queue().users() + 1;
    lane.polled().reserve(users);
    lane.pending().expect(users);
    lane.stalled().expect(users);
    return {lane.queue(), config};
}

// Polls the lane of this thread until then. Each move has a deadline of its own.
template <class Done>
void poll_until(Lane::Impl& own, Done done, Deadline deadline = Deadline::never()) {
    for (unsigned round = 0; !done() && !deadline.passed(round); ++round) {
        (void)own.poll();
        own.pause(round, deadline);
    }
}

// A layer asks again for what its peer could not give back at first: nothing wakes this side then.
void await_layer(Connection::Impl& impl, Lane::Impl& own) {
    const auto is_ready = [&] {
        return impl.handle == nullptr || impl.moving.layer.is_ready(false);
    };
    const Deadline all = Deadline::after(impl.context->config.connect.timeout / 2);
    while (!is_ready() && !all.passed())
        poll_until(own, is_ready, Deadline::after(std::chrono::milliseconds(2)));
}

// True: the connection is ready to leave its lane. False: the outcome is known.
bool begin_move(Connection::Impl& impl, const Lane& lane,
                const std::shared_ptr<MoveOutcome>& outcome) {
    const Connection::Impl::Use use(impl);  // polls may end the connection
    Moving& moving = impl.moving;
    Lane::Impl& own = *impl.lane;
    moving.check(lane, false);
    std::optional<Reservation> room;
    visit(lane.impl(), own,
          [&] { room.emplace(make_room_for_member(*lane.impl(), impl.context->config)); });
    do {
        poll_until(own, [&] { return !moving.is_busy(); });  // with a move of the peer's
        await_layer(impl, own);
    } while (impl.handle != nullptr && moving.is_busy());
    if (impl.handle == nullptr) {
        outcome->tell(Errc::peer_lost, "a handler ended it during the call");
        return false;
    }
    moving.check(lane, true);
    moving.begin(moving.make(lane.impl(), std::move(*room)), outcome);
    poll_until(own, [&] { return outcome->is_known() || moving.may_leave(); });
    return !outcome->is_known();
}

// The connection is the new lane's, and perhaps gone. That lane writes the outcome.
void await(const MoveOutcome& outcome, Lane::Impl& own, Lane::Impl& other) {
    while (!outcome.is_known()) {
        (void)own.poll();
        if (!is_driven_elsewhere(other)) {
            const auto guard = other.enter();
            (void)other.poll();
        }
        std::this_thread::yield();
    }
}

}  // namespace

void LayerAccess::set_move_handler(Connection& connection, bool (*call)(void* state, bool) noexcept,
                                   void* state, std::shared_ptr<void> buffers) noexcept {
    impl_of(connection).moving.layer = {call, state, std::move(buffers)};
}

void Connection::move_to(const Lane& lane) {
    const std::shared_ptr<Lane::Impl> own = impl_->lane, other = lane.impl();
    const std::shared_ptr<Context::Impl> context = impl_->context;  // goes after the lanes
    const std::string object = "connection to " + impl_->channel.name();
    const auto guard = own->enter();
    if (own == other) return;
    if (own->polled().is_inherited()) check();
    const auto outcome = std::make_shared<MoveOutcome>();
    if (begin_move(*impl_, lane, outcome)) {
        Moving& moving = impl_->moving;
        std::shared_ptr<void> hosted = moving.leave();
        visit(other, *own, [&] { moving.join(std::move(hosted)); });
        await(*outcome, *own, *other);
    }
    if (outcome->code() != Errc::ok)
        throw Error(outcome->code(), object, outcome->text(),
                    scope_of(outcome->code()) == Scope::request
                        ? "move when that has been mended; the connection goes on (docs/moving.md)"
                        : "connect again");
}

}  // namespace verbatim
