// A handshake brings two sides together over a connected side channel, in steps that do not wait:
// proofs where there is a key, hello both ways, queue pairs, ready both ways. Each step has the
// deadline [connect] timeout. Nothing is made for the peer, or told to it, before its proof.
// Threads: one at a time; any.
#pragma once

#include <memory>
#include <optional>

#include <verbatim/core/context.hpp>

#include "../awaited/awaited.hpp"
#include "../bootstrap/proving.hpp"
#include "../bootstrap/side_channel.hpp"
#include "../bootstrap/side_thread.hpp"
#include "context_impl.hpp"
#include "endpoint.hpp"

namespace verbatim {

// Two sides that have shaken hands: a connection that only has to join its lane.
struct Meeting {
    std::shared_ptr<Context::Impl> context;
    std::shared_ptr<Lane::Impl> lane;
    std::unique_ptr<Endpoint> endpoint;
    SideChannel channel;
    std::shared_ptr<ClientSession> client;  // of a peer that dials again
};

class Handshake {
  public:
    // Of a side that speaks first, or hears first. `client`: what a caller says of itself.
    Handshake(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, SideChannel channel,
              SocketSide side, std::optional<ClientIdentity> client = {});
    // Of a side that has heard the peer's hello, behind the proofs.
    Handshake(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, SideChannel channel,
              Hello peer);
    // Goes on as far as it can. True: they have met. Throws Error; the peer has been told why.
    bool go_on();
    // What go_on() waits for.
    void add_to(WaitList& list) const;
    Meeting take() {
        return {std::move(context_), std::move(lane_.lane), std::move(endpoint_),
                std::move(channel_), std::move(session_)};
    }
    const Lane::Impl* lane() const noexcept { return lane_.lane.get(); }
    const std::string& peer_name() const noexcept { return channel_.name(); }

  private:
    enum class Stage : std::uint8_t {
        proving,
        greeting,
        hearing,
        connecting,
        failing,
        readying,
        met
    };

    bool step();
    void begin(Stage stage);
    bool prove();
    bool greet();
    bool may_greet();
    void begin_greeting();
    bool hear();
    bool connect();
    bool has_connected();
    bool hear_reason();
    bool hear_ready();

    std::shared_ptr<Context::Impl> context_;
    LaneOfEndpoint lane_;  // the endpoint has the reservation
    SideChannel channel_;
    std::optional<Hello> peer_;
    std::optional<ClientIdentity> client_;    // this side
    std::shared_ptr<ClientSession> session_;  // the peer, once admitted
    std::optional<Proving> proving_;          // where there is a key
    SocketSide side_;
    Stage stage_ = Stage::greeting;
    Deadline deadline_;            // of the stage
    std::optional<Error> reason_;  // for failing, unless the peer knows better
    std::unique_ptr<Endpoint> endpoint_;
    std::optional<SideThread<void>> connecting_;  // uses the endpoint
};

}  // namespace verbatim
