// An address is where a listener is: a TCP port of a host, or a Unix socket of this machine.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>
#include <variant>

#include "socket.hpp"

namespace verbatim {

// The name of a Unix socket: a path, or "@name" in the abstract space of the network namespace.
struct UnixName {
    std::string path;
    // Throws Error(invalid_argument): empty, or longer than a Unix socket takes.
    static UnixName parse(std::string_view path);
    bool is_abstract() const noexcept { return path.starts_with('@'); }
    std::string text() const { return "unix:" + path; }

    struct Socket {
        sockaddr_un address{};
        socklen_t bytes = 0;
        const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
    };
    Socket socket() const noexcept;
};

// An address of the connection manager: "rdma://host:port".
struct ManagerPort {
    HostPort at;
    std::string text() const { return "rdma://" + at.text(); }
};

using Address = std::variant<HostPort, UnixName, ManagerPort>;

// "host:port", "[::1]:7471", "unix:/path", "unix:@name", "rdma://host:port". Throws
// Error(invalid_argument) that says what the forms are.
Address parse_address(std::string_view text);

}  // namespace verbatim
