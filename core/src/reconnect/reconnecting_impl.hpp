// The state of a reconnecting connection: connected, dialling, between two attempts, or ended.
// Threads: the lane's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <verbatim/core/reconnecting.hpp>

#include "../connection/calling.hpp"
#include "../connection/connection_impl.hpp"
#include "reconnect_pause.hpp"
#include "unsettled.hpp"

namespace verbatim {

struct Reconnecting::Impl final : Awaited {
  public:
    // What the program has set.
    struct Handlers {
        std::vector<std::pair<std::uint8_t, ChannelHandler>> channels;
        std::function<void(Connection&)> connected;
        std::function<void(const Lost&)> lost;
    };

    Impl(const Lane& on, Address address, const ReconnectOptions& wanted);
    void go_on() noexcept override;
    void add_to(WaitList& list) const override;
    Errc state() const noexcept;
    Errc try_send(const OutgoingMessage& message) noexcept;
    // Takes the news of what the peer has taken.
    void settle() noexcept;
    Connection::Impl& now() noexcept { return LayerAccess::impl_of(*connection); }

    const Lane lane;
    const std::shared_ptr<Context::Impl> context;
    const Address to;
    const ReconnectOptions options;
    Handlers handlers;
    ClientIdentity client;
    std::optional<Connection> connection;
    Unsettled unsettled;
    std::optional<Error> ended;  // for good

  private:
    void dial();
    void take_calling();
    void begin(Meeting meeting);
    void end_connection();
    void pause();
    void failed(const Error& error);

    ReconnectPause pauses_;
    Clock::time_point next_attempt_, lost_at_;
    std::unique_ptr<Calling> calling_;  // an attempt that is under way
};

}  // namespace verbatim
