// Opening memory of the peer for layers.
#include "../connection/waiting.hpp"

namespace verbatim {

// A connection that moves is about to lose its queue pair.
std::byte* RemoteAccess::open(Connection& connection, std::uint64_t address, std::size_t bytes,
                              std::uint32_t remote_key) noexcept {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    const auto guard = enter(impl);
    std::byte* place = nullptr;
    if (impl.moving.is_busy()) return place;
    (void)post_one_sided(impl, [&](OneSidedRequests&) {
        place = impl.endpoint->queue_pair().open_remote(address, bytes, remote_key);
        return Errc::ok;
    });
    return place;
}

void RemoteAccess::close(Connection& connection) noexcept {
    Connection::Impl& impl = LayerAccess::impl_of(connection);
    const auto guard = enter(impl);
    impl.endpoint->close_remote();
}

}  // namespace verbatim
