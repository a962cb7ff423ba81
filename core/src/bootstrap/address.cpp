// Texts of addresses.
#include "address.hpp"

#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace verbatim {
namespace {

constexpr std::string_view kUnix = "unix:", kManager = "rdma://";
// One byte is the zero at the end of a path, or in front of an abstract name.
constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

UnixName UnixName::parse(std::string_view path) {
    const auto refuse = [&](std::string cause) {
        throw Error(Errc::invalid_argument, fmt::format("address \"unix:{}\"", path),
                    std::move(cause),
                    "write unix:/path/to/socket, or unix:@name for one without a file");
    };
    if (path.empty() || path == "@") refuse("it has no path");
    if (path.find('\0') != std::string_view::npos) refuse("its path has a zero byte");
    UnixName name{std::string(path)};
    const std::size_t bytes = name.is_abstract() ? path.size() - 1 : path.size();
    if (bytes > kLongestPath)
        refuse(fmt::format("its path has {} bytes, and a Unix socket takes {} at most", bytes,
                           kLongestPath));
    return name;
}

UnixName::Socket UnixName::socket() const noexcept {
    Socket made;
    made.address.sun_family = AF_UNIX;
    std::memcpy(made.address.sun_path, path.data(), path.size());
    // An abstract name is all bytes behind a zero; a path ends with one.
    if (is_abstract()) made.address.sun_path[0] = '\0';
    made.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size() +
                                        (is_abstract() ? 0 : 1));
    return made;
}

Address parse_address(std::string_view text) {
    if (text.starts_with(kUnix)) return UnixName::parse(text.substr(kUnix.size()));
    if (text.starts_with(kManager))
        return ManagerPort{HostPort::parse(text.substr(kManager.size()))};
    return HostPort::parse(text);
}

}  // namespace verbatim
