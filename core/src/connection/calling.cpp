// The steps of an attempt to connect.
#include "calling.hpp"

#include <utility>

namespace verbatim {

Calling::Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, const Address& to,
                 std::optional<ClientIdentity> client)
    : context_(std::move(context)),
      lane_(std::move(lane)),
      call_(make_call(to, Deadline::after(context_->config.connect.timeout))),
      client_(client) {}

Calling::Calling(std::shared_ptr<Context::Impl> context, LaneOfEndpoint lane, Descriptor socket,
                 const HandedSocket& handed)
    : context_(std::move(context)), lane_(std::move(lane)) {
    tcp::tune(socket);
    tcp::keep_alive(socket, context_->config.connect.keep_alive);
    std::string name = tcp::peer_name(socket);
    SideChannel channel(std::move(socket), std::move(name));
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
    Descriptor socket = call_->take();
    tcp::keep_alive(socket, context_->config.connect.keep_alive);
    std::string name = tcp::peer_name(socket);
    shaking_.emplace(context_, std::move(lane_), SideChannel(std::move(socket), std::move(name)),
                     Side::caller, client_);
}

}  // namespace verbatim
