#include <verbatim/core/layers/layer_requests.hpp>

#include "../connection/waiting.hpp"

namespace verbatim {

Connection* LayerAccess::handle_of(const Connection::Impl& impl) noexcept { return impl.handle; }

std::uint64_t LayerRequests::last(Connection& connection) noexcept {
    LaneMember& member = LayerAccess::impl_of(connection).member;
    return member.ring().has_posted_all() ? member.path().accepted() : 0;
}

std::uint64_t LayerRequests::landed(Connection& connection) noexcept {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    SendPath& path = impl.member.path();
    // A peer may close as soon as it has all, before its device's last answers are here.
    if (impl.has_ended() && connection.peer_took_all()) return path.accepted();
    return path.retired() - path.user().failed();
}

void LayerRequests::ask(Connection& connection) noexcept {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    const auto guard = enter(impl);
    SendPath& path = impl.member.path();
    if (!path.awaits_completion()) (void)impl.judge(path.signal_last());
}

}  // namespace verbatim
