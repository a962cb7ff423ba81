// Contexts: configuration, device and arenas put together; connecting.
#include <verbatim/core/context.hpp>

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "connection_impl.hpp"
#include "context_impl.hpp"
#include "listener_impl.hpp"

namespace verbatim {
namespace {

constexpr const char* kLocalFile = "verbatim.toml";

Config found_config() {
    if (const char* path = std::getenv("VERBATIM_CONFIG"); path != nullptr && *path != '\0')
        return Config::from_file(path);
    return access(kLocalFile, F_OK) == 0 ? Config::from_file(kLocalFile) : Config{};
}

}  // namespace

Context::Impl::Impl(const Config& configuration)
    : config(configuration),
      device(open_configured_device(config)),
      objects(*device, std::make_shared<Arena>(config.arena), Access::local_write),
      received(*device, std::make_shared<Arena>(config.receive_arena),
               Access::local_write | Access::remote_write),
      posted(*device, config.receive_arena) {}

Context::Context() : Context(found_config()) {}
Context::Context(const Config& config)
    : impl_(std::make_shared<Impl>(config)), lane_(make_lane()) {}
Context::~Context() = default;

Lane Context::make_lane() {
    return Lane(std::make_shared<Lane::Impl>(impl_, *impl_->device, impl_->config.lane));
}

Connection Context::connect(std::string_view host_port) { return connect(host_port, lane_); }

Connection Context::connect(std::string_view host_port, const Lane& on) {
    const auto guard = on.impl()->enter();
    const HostPort to = HostPort::parse(host_port);
    Descriptor socket = tcp::connect(to, Deadline::after(impl_->config.connect.timeout));
    std::string name = tcp::peer_name(socket);
    LaneQueue& queue = on.impl()->queue();
    Reservation reservation(queue, impl_->config);
    auto connection = std::make_unique<Connection::Impl>(
        on.impl(), shake_hands(impl_, queue.handle(),
                               SideChannel(std::move(socket), std::move(name)), std::nullopt));
    reservation.keep();
    return Connection(std::move(connection));
}

Listener Context::listen(std::string_view host_port) {
    const HostPort at = HostPort::parse(host_port);
    return Listener(std::make_unique<Listener::Impl>(
        impl_, lane_, tcp::listen(at, impl_->config.connect.loopback_only)));
}

Arena& Context::arena() noexcept { return impl_->objects.arena(); }
Device& Context::device() noexcept { return *impl_->device; }
const Config& Context::config() const noexcept { return impl_->config; }

}  // namespace verbatim
