// The steps of an attempt to connect.
#include "calling.hpp"

#include <utility>

#include "../bootstrap/manager_call.hpp"

namespace verbatim {

namespace {

std::unique_ptr<Call> call_of(Context::Impl& context, const Address& to) {
    const Deadline deadline = Deadline::after(context.config.connect.timeout);
    if (const auto* port = std::get_if<ManagerPort>(&to))
        return std::make_unique<ManagerCall>(context.streams(port->text()), *port, deadline);
    return make_call(to, deadline);
}

}  // namespace

Calling::Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, const Address& to,
                 std::optional<ClientIdentity> client)
    : context_(std::move(context)),
      lane_(std::move(lane)),
      call_(call_of(*context_, to)),
      client_(client) {}

Calling::Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, Descriptor socket,
                 const HandedSocket& handed)
    : context_(std::move(context)), lane_(std::move(lane)) {
    tcp::tune(socket);
    tcp::keep_alive(socket, context_->config.connect.keep_alive);
    SideChannel channel = SideChannel::over(std::move(socket));
    channel.feed(handed.read_ahead);
    shaking_.emplace(context_, std::move(lane_), std::move(channel), handed.side);
}

void Calling::go_on() noexcept try {
    if (error_ != nullptr || has_met_) return;
    if (!shaking_) shake_hands();
    has_met_ = shaking_ && shaking_->go_on();
} catch (...) {
    error_ = std::current_exception();
}

void Calling::add_to(WaitList& list) const {
    if (is_over()) return;
    if (shaking_) return shaking_->add_to(list);
    if (const pollfd entry = call_->waits_for(); entry.fd >= 0) list.files.push_back(entry);
    list.add(call_->wakes_at());
}

Meeting Calling::take() {
    if (error_ != nullptr) std::rethrow_exception(error_);
    return shaking_->take();
}

void Calling::shake_hands() {
    if (!call_->go_on()) return;
    SideChannel channel = call_->take();
    tcp::keep_alive(channel.socket(), context_->config.connect.keep_alive);
    shaking_.emplace(context_, std::move(lane_), std::move(channel), SocketSide::caller, client_);
}

}  // namespace verbatim
