// The order of things while two sides meet: hello both ways, queue pairs, ready both ways. Every
// step has the deadline [connect] timeout.
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"

namespace verbatim {
namespace {

constexpr std::chrono::milliseconds kForTheReason{200};

Deadline step(const Context::Impl& context) {
    return Deadline::after(context.config.connect.timeout);
}

// The peer noticed the failure too and may know the cause where this side only saw silence.
[[noreturn]] void rethrow_with_cause(SideChannel& channel, const Error& error) {
    if (error.code() == Errc::timeout || error.code() == Errc::peer_lost) {
        try {
            (void)channel.receive(FrameType::ready, Deadline::after(kForTheReason));
        } catch (const Error& told) {
            if (told.code() != Errc::timeout && told.code() != Errc::peer_lost) throw told;
        }
    }
    throw error;
}

void connect_queue_pairs(const Context::Impl& context, Endpoint& endpoint, SideChannel& channel,
                         const Hello& peer) {
    try {
        endpoint.connect(peer, step(context));
    } catch (const Error& error) {
        rethrow_with_cause(channel, error);
    }
    channel.send(FrameType::ready, {}, step(context));
    (void)channel.receive(FrameType::ready, step(context));
}

Meeting meet(std::shared_ptr<Context::Impl> context, const LaneOfEndpoint& lane,
             SideChannel& channel, std::optional<Hello>& peer) {
    auto endpoint =
        std::make_unique<Endpoint>(*context, lane, tcp::local_address(channel.socket()));
    const Hello mine = endpoint->hello();
    if (peer) check_compatible(mine, *peer, channel.name());
    channel.send(FrameType::hello, encode_hello(mine), step(*context));
    if (!peer) {
        peer = parse_hello(channel.receive(FrameType::hello, step(*context)).body, channel.name());
        check_compatible(mine, *peer, channel.name());
    }
    connect_queue_pairs(*context, *endpoint, channel, *peer);
    log::debug("{}: connected to process {} of user {} over {}", channel.name(), peer->process,
               peer->user, peer->device_name);
    return {std::move(context), std::move(endpoint), std::move(channel)};
}

}  // namespace

Meeting shake_hands(std::shared_ptr<Context::Impl> context, const LaneOfEndpoint& lane,
                    SideChannel channel, std::optional<Hello> peer) {
    try {
        return meet(std::move(context), lane, channel, peer);
    } catch (const Error& error) {
        channel.refuse(error);
        throw;
    }
}

}  // namespace verbatim
