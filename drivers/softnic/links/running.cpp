// Finds the sockets of this user's devices, and asks at each.
#include <verbatim/softnic/running.hpp>

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"
#include "identity.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::chrono::seconds kAnswerTime{1};
constexpr std::size_t kMostText = std::size_t{16} << 20;

// One line of the kernel's list of Unix sockets: names of devices that listen.
std::optional<std::string> listening_name(const std::string& line) {
    constexpr unsigned long kListens = 0x10000;  // __SO_ACCEPTCON
    std::istringstream words(line);
    std::string word, flags, path;
    words >> word >> word >> word >> flags >> word >> word >> word >> path;
    if (words.fail() || (std::strtoul(flags.c_str(), nullptr, 16) & kListens) == 0)
        return std::nullopt;
    const std::string_view name(path);
    for (const std::string_view prefix : {kSlotPrefix, kRandomPrefix})
        if (name.substr(0, 1) == "@" && name.substr(1).starts_with(prefix)) return path.substr(1);
    return std::nullopt;
}

std::set<std::string> listening_names() {
    std::ifstream list("/proc/net/unix");
    if (!list)
        throw Error(Errc::device_error, "/proc/net/unix", "it cannot be read", "is /proc mounted?");
    std::set<std::string> names;
    for (std::string line; std::getline(list, line);)
        if (auto name = listening_name(line)) names.insert(*std::move(name));
    return names;
}

// Closed: there is nobody (any more), or nobody who accepts.
Descriptor connect_to(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (name.size() + 1 > sizeof address.sun_path) return {};
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0)
        return {};
    return socket;
}

std::string read_all(int file) {
    std::string text;
    std::array<char, 1 << 16> part;
    while (text.size() < kMostText) {
        const ssize_t got = pread(file, part.data(), part.size(), static_cast<off_t>(text.size()));
        if (got <= 0) break;
        text.append(part.data(), static_cast<std::size_t>(got));
    }
    return text;
}

std::string ask(int socket) {
    const Instant deadline = std::chrono::steady_clock::now() + kAnswerTime;
    LinkMessage question;
    question.op = LinkOp::describe;
    if (!send_message(socket, question)) return {};
    while (wait_readable(socket, deadline)) {
        LinkMessage answer;
        std::vector<Descriptor> files;
        const Received got = receive_message(socket, answer, files);
        if (got == Received::nothing) continue;
        const bool good =
            got == Received::message && answer.op == LinkOp::description && files.size() == 1;
        return good ? read_all(files[0].get()) : std::string{};
    }
    return {};
}

std::optional<RunningDevice> look_at(const std::string& name) {
    const Descriptor socket = connect_to(name);
    ucred peer{};
    socklen_t bytes = sizeof peer;
    if (!socket || getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 ||
        peer.uid != geteuid())
        return std::nullopt;
    RunningDevice device{peer.pid, {}, ask(socket.get())};
    // A child of a program that was killed may hold the socket still.
    if (kill(peer.pid, 0) != 0) return std::nullopt;
    std::ifstream(fmt::format("/proc/{}/comm", peer.pid)) >> device.program;
    return device;
}

}  // namespace

std::vector<RunningDevice> running_devices() {
    std::vector<RunningDevice> devices;
    for (const std::string& name : listening_names())
        if (auto device = look_at(name)) devices.push_back(*std::move(device));
    std::sort(devices.begin(), devices.end(), [](const auto& a, const auto& b) {
        return std::tie(a.process, a.description) < std::tie(b.process, b.description);
    });
    return devices;
}

}  // namespace verbatim::softnic
