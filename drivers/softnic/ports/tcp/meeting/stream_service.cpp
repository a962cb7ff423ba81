// What a device says of its ports.
#include "stream_service.hpp"

#include <unistd.h>

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {

void StreamService::tell(QueuePairAddress& address, const std::array<std::uint8_t, 16>& local) {
    address.ports = ports_;
    address.home.user = geteuid();
    address.home.host = host_;
    if (offered()) try {
            const StreamPlace place = doors_.open(local);
            address.stream_address = place.address;
            address.stream_port = place.port;
        } catch (const Error& error) {
            if (kind_ == PortKind::tcp) throw;
            log::info("the tcp port is not offered: {}", error.what());
            address.ports &= static_cast<std::uint8_t>(~kTcpOffered);
        }
}

}  // namespace verbatim::softnic
