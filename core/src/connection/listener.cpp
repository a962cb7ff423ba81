// The accepting side.
#include <poll.h>

#include <algorithm>

#include <fmt/format.h>
#include <verbatim/driver/deadline.hpp>
#include <verbatim/driver/log.hpp>

#include "connection_impl.hpp"
#include "listener_impl.hpp"

namespace verbatim {
namespace {

constexpr std::size_t kMaxCallers = 64;  // more wait in the kernel's queue
// Between attempts to take a caller while there is no descriptor for it: no event tells of a free
// one.
constexpr std::chrono::milliseconds kStarvedPause{20};

void turn_down(SideChannel& channel, const Error& reason) {
    log::warn("refused {}: {}", channel.name(), reason.cause());
    channel.refuse(reason);
}

}  // namespace

Connection Listener::Impl::accept(const std::shared_ptr<Lane::Impl>& on, Deadline deadline) {
    const auto guard = on->enter();
    while (true) {
        take_callers();
        hear_callers(on);
        if (auto connection = welcomes_.take()) return Connection(std::move(connection));
        if (deadline.passed())
            throw Error(Errc::timeout, fmt::format("listener on port {}", tcp::local_port(socket)),
                        "no peer completed the hello in time",
                        "start the sender, or allow more time");
        wait(deadline);
    }
}

void Listener::Impl::take_callers() try {
    while (callers_.size() < kMaxCallers) {
        Descriptor caller = tcp::accept(socket);
        starved_ = false;
        if (!caller) return;
        std::string name = tcp::peer_name(caller);
        callers_.push_back({SideChannel(std::move(caller), std::move(name)),
                            Deadline::after(context->config.connect.timeout)});
    }
} catch (const Error& error) {  // callers wait in the kernel's queue until something was closed
    if (!starved_) log::warn("{}", error.what());
    starved_ = true;
}

void Listener::Impl::hear_callers(const std::shared_ptr<Lane::Impl>& on) {
    for (auto it = callers_.begin(); it != callers_.end() && !welcomes_.is_full();) {
        try {
            if (const auto hello = hear(*it))
                welcomes_.start(context, on, std::move(it->channel), *hello);
            else {
                ++it;
                continue;
            }
        } catch (const Error& error) {
            turn_down(it->channel, error);
        }
        it = callers_.erase(it);
    }
}

std::optional<Hello> Listener::Impl::hear(Caller& caller) {
    const std::string& name = caller.channel.name();
    const auto frame = caller.channel.try_receive();
    if (frame && frame->type == FrameType::hello) return parse_hello(frame->body, name);
    if (frame)
        throw Error(Errc::protocol_error, name, "it did not begin with a hello",
                    "connect with verbatim only");
    if (caller.deadline.passed())
        throw Error(Errc::timeout, name, "it said no complete hello in time",
                    "see whether the caller is stopped, or raise timeout of [connect]");
    return std::nullopt;
}

void Listener::Impl::wait(Deadline deadline) {
    const bool takes_callers = callers_.size() < kMaxCallers && !starved_;
    std::vector<pollfd> entries{{takes_callers ? socket.get() : -1, POLLIN, 0},
                                {welcomes_.ended().get(), POLLIN, 0}};
    if (starved_) deadline.when = std::min(deadline.when, Clock::now() + kStarvedPause);
    // While no more handshakes can begin, callers need not be heard.
    for (const Caller& caller : callers_) {
        if (welcomes_.is_full()) break;
        entries.push_back({caller.channel.socket().get(), POLLIN, 0});
        deadline.when = std::min(deadline.when, caller.deadline.when);
    }
    poll(entries.data(), entries.size(),
         milliseconds_until(deadline.when));  // interrupted or not: look again
}

Listener::Listener(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;
Connection Listener::accept(Deadline deadline) {
    return impl_->accept(impl_->lane.impl(), deadline);
}
Connection Listener::accept(const Lane& lane, Deadline deadline) {
    return impl_->accept(lane.impl(), deadline);
}
std::uint16_t Listener::port() const noexcept { return tcp::local_port(impl_->socket); }

}  // namespace verbatim
