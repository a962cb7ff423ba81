// A calling is one attempt to connect: a call of a listener, or a socket of the program, and the
// handshake over it, in steps that do not wait. Threads: one at a time.
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "../awaited/awaited.hpp"
#include "../bootstrap/address.hpp"
#include "../bootstrap/call.hpp"
#include "handshake.hpp"

namespace verbatim {

class Calling final : public Awaited {
  public:
    // `client`: what the hello says of this side, if anything. Throws Error.
    Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, const Address& to,
            std::optional<ClientIdentity> client = {});
    // `read_ahead`: of what the peer has said. Throws Error(protocol_error).
    Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, Descriptor socket,
            const HandedSocket& handed);
    void go_on() noexcept override;
    void add_to(WaitList& list) const override;
    bool is_over() const noexcept { return has_met_ || error_ != nullptr; }
    // Throws Error.
    Meeting take();

  private:
    void shake_hands();

    const std::shared_ptr<Context::Impl> context_;
    LaneOfEndpoint lane_;         // until it shakes hands
    std::unique_ptr<Call> call_;  // null: the program has connected
    std::optional<ClientIdentity> client_;
    std::optional<Handshake> shaking_;
    std::exception_ptr error_;
    bool has_met_ = false;
};

}  // namespace verbatim
