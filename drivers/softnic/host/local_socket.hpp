// Sockets between the processes of one host: SOCK_SEQPACKET, named in the abstract namespace,
// without blocking, closed on exec. A name vanishes with its process, however that ends. Threads:
// any.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "descriptor.hpp"

namespace verbatim::softnic {

using Instant = std::chrono::steady_clock::time_point;

// Each returns 0 or an errno. Names are at most 107 bytes long (ENAMETOOLONG).
int open_local_socket(Descriptor& made);
// EADDRINUSE: another socket has that name.
int bind_local_socket(const Descriptor& socket, std::string_view name) noexcept;
// ECONNREFUSED: no listener has that name; EAGAIN: its backlog is full.
int connect_local_socket(const Descriptor& socket, std::string_view name) noexcept;

// The process at the other end, as of the time when it connected or began to listen.
std::optional<ucred> peer_of(int socket) noexcept;

// One named socket of this network namespace.
struct NamedSocket {
    std::string name;
    bool listens;
    bool connected;  // an accepted socket carries the name of its listener and does not hold it
};
using NamedSockets = std::vector<NamedSocket>;
// Those whose names begin with `prefix`. Nothing: /proc/net/unix cannot be read.
std::optional<NamedSockets> named_sockets(std::string_view prefix);

inline constexpr std::size_t kFilesPerPacket = 32;

struct Packet {
    // Cut: it was longer than the place for it, or more descriptors came with it. Lossy: this
    // process had no room for all of its descriptors.
    enum class State : std::uint8_t { whole, cut, lossy, nothing, ended } state;
    std::size_t bytes = 0;  // that are in that place
};

// Sends without blocking. False: the peer is gone or does not read (errno).
bool send_packet(int socket, std::span<const std::byte> bytes,
                 std::span<const int> files = {}) noexcept;
// Reads one packet if there is one. Descriptors that came with it are appended to `files`; null:
// there must be none.
Packet receive_packet(int socket, std::span<std::byte> into, std::vector<Descriptor>* files);
// Waits until the socket can be read or has ended. False: the deadline passed, whatever can be
// read: a peer that talks without end holds up nobody.
bool wait_readable(int socket, Instant deadline) noexcept;

}  // namespace verbatim::softnic
