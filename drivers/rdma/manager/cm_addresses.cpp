// Texts and GIDs of addresses.
#include "cm_addresses.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace verbatim::rdma {

std::string cm_text(const sockaddr& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
        return fmt::format("{}:{}", text.data(), ntohs(four.sin_port));
    }
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
    return fmt::format("[{}]:{}", text.data(), ntohs(six.sin6_port));
}

std::array<std::uint8_t, 16> cm_bytes(const sockaddr& address) noexcept {
    std::array<std::uint8_t, 16> bytes{};
    if (address.sa_family == AF_INET6) {
        sockaddr_in6 six{};
        std::memcpy(&six, &address, sizeof six);
        std::memcpy(bytes.data(), &six.sin6_addr, bytes.size());
    } else if (address.sa_family == AF_INET) {
        sockaddr_in four{};
        std::memcpy(&four, &address, sizeof four);
        bytes[10] = bytes[11] = 0xff;
        std::memcpy(bytes.data() + 12, &four.sin_addr, 4);
    }
    return bytes;
}

}  // namespace verbatim::rdma
