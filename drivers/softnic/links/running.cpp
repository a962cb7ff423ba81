// Finds the sockets of this user's devices, and asks at each.
#include <verbatim/softnic/running.hpp>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include <fmt/format.h>

#include "../host/link_message.hpp"
#include "identity.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::chrono::seconds kAnswerTime{1};
constexpr std::size_t kMostText = std::size_t{16} << 20;

std::set<std::string> listening_names() {
    std::set<std::string> names;
    for (const std::string_view prefix : {kSlotPrefix, kRandomPrefix}) {
        const auto sockets = named_sockets(prefix);
        if (!sockets)
            throw Error(Errc::device_error, "/proc/net/unix", "it cannot be read",
                        "is /proc mounted?");
        for (const NamedSocket& socket : *sockets)
            if (socket.listens) names.insert(socket.name);
    }
    return names;
}

// Closed: no process listens there (any more), or it does not accept.
Descriptor connect_to(const std::string& name) {
    Descriptor socket;
    if (open_local_socket(socket) != 0 || connect_local_socket(socket, name) != 0) return {};
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
    const std::optional<ucred> peer = peer_of(socket.get());
    if (!peer || peer->uid != geteuid()) return std::nullopt;
    RunningDevice device{peer->pid, {}, ask(socket.get())};
    // A child of a program that was killed may hold the socket still.
    if (kill(peer->pid, 0) != 0) return std::nullopt;
    std::ifstream(fmt::format("/proc/{}/comm", peer->pid)) >> device.program;
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
