// Addresses, the kernel's list of names, packets with descriptors.
#include "local_socket.hpp"

#include <poll.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <verbatim/driver/deadline.hpp>

#include "cancellation.hpp"
#include "own_threads.hpp"

namespace verbatim::softnic {
namespace {

struct Address {
    explicit Address(std::string_view name) noexcept {
        value.sun_family = AF_UNIX;
        fits = name.size() < sizeof value.sun_path;
        const std::size_t count = fits ? name.size() : 0;
        std::copy_n(name.begin(), count, value.sun_path + 1);
        bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + count);
    }
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&value); }

    sockaddr_un value{};
    socklen_t bytes;
    bool fits;
};

// One line of the kernel's list, unix(7): number, users, protocol, flags, type, state, inode, name.
std::optional<NamedSocket> named_socket(const std::string& line, std::string_view prefix) {
    constexpr unsigned long kListens = 0x10000;  // __SO_ACCEPTCON
    std::istringstream words(line);
    std::string word, flags, state, name;
    words >> word >> word >> word >> flags >> word >> state >> word >> name;
    if (words.fail() || !name.starts_with('@')) return std::nullopt;
    name.erase(0, 1);
    if (!name.starts_with(prefix)) return std::nullopt;
    const bool listens = (std::strtoul(flags.c_str(), nullptr, 16) & kListens) != 0;
    return NamedSocket{std::move(name), listens, state == "03"};
}

constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * kFilesPerPacket);

void take_descriptors(msghdr& header, std::vector<Descriptor>& files) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr;
         part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
            files.emplace_back(fd);
        }
    }
}

// The kernel leaves out what the peer sent too much of, and what finds no number here.
Packet::State state_of(const msghdr& header, std::size_t files) noexcept {
    if ((header.msg_flags & MSG_TRUNC) != 0) return Packet::State::cut;
    if ((header.msg_flags & MSG_CTRUNC) == 0) return Packet::State::whole;
    return files < kFilesPerPacket ? Packet::State::lossy : Packet::State::cut;
}

}  // namespace

int open_local_socket(Descriptor& made) {
    made = Descriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return made ? 0 : errno;
}

int bind_local_socket(const Descriptor& socket, std::string_view name) noexcept {
    const Address address(name);
    if (!address.fits) return ENAMETOOLONG;
    return ::bind(socket.get(), address.get(), address.bytes) == 0 ? 0 : errno;
}

int connect_local_socket(const Descriptor& socket, std::string_view name) noexcept {
    const Address address(name);
    if (!address.fits) return ENAMETOOLONG;
    for (;;) {
        if (::connect(socket.get(), address.get(), address.bytes) == 0) return 0;
        if (errno != EINTR) return errno;
    }
}

std::optional<ucred> peer_of(int socket) noexcept {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
    return peer;
}

std::optional<NamedSockets> named_sockets(std::string_view prefix) {
    std::ifstream list("/proc/net/unix");
    if (!list) return std::nullopt;
    NamedSockets found;
    for (std::string line; std::getline(list, line);)
        if (auto socket = named_socket(line, prefix)) found.push_back(*std::move(socket));
    return found;
}

bool send_packet(int socket, std::span<const std::byte> bytes,
                 std::span<const int> files) noexcept {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (!files.empty()) {
        header.msg_control = control.data();
        header.msg_controllen = CMSG_SPACE(files.size_bytes());
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(files.size_bytes());
        std::memcpy(CMSG_DATA(rights), files.data(), files.size_bytes());
    }
    const WithoutCancellation none;
    for (;;) {
        const ssize_t sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        return sent == static_cast<ssize_t>(bytes.size());
    }
}

Packet receive_packet(int socket, std::span<std::byte> into, std::vector<Descriptor>* files) {
    iovec part{into.data(), into.size()};
    alignas(cmsghdr) std::array<std::byte, kControlBytes> control{};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    if (files != nullptr) {
        header.msg_control = control.data();
        header.msg_controllen = control.size();
    }
    const WithoutCancellation none;
    ssize_t got;
    // A peer that closed before it had read all is reported once, in front of what it had sent.
    bool reset = false;
    do {
        got = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(reset, true))));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return {Packet::State::nothing};
    if (got <= 0) return {Packet::State::ended};
    const std::size_t before = files == nullptr ? 0 : files->size();
    if (files != nullptr) take_descriptors(header, *files);
    return {state_of(header, files == nullptr ? kFilesPerPacket : files->size() - before),
            static_cast<std::size_t>(got)};
}

bool wait_readable(int socket, Instant deadline) noexcept {
    const WithoutCancellation none;
    for (;;) {
        const int left = milliseconds_until(deadline);
        if (left == 0) return false;
        pollfd entry{socket, POLLIN, 0};
        int ready;
        {
            const AtRest rest;
            ready = poll(&entry, 1, left);
        }
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
}

}  // namespace verbatim::softnic
