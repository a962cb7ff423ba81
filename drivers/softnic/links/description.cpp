// The words, and their way to the asking process.
#include "description.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

const char* name(mlx5::Transport transport) {
    switch (transport) {
        case mlx5::Transport::reliable_connection:
            return "RC";
        case mlx5::Transport::unreliable_connection:
            return "UC";
        case mlx5::Transport::unreliable_datagram:
            return "UD";
    }
    return "unknown";
}

const char* name(const QueuePairFacts& pair) {
    if (pair.xrc == XrcSide::none) return name(pair.transport);
    return pair.xrc == XrcSide::initiator ? "XRC_INI" : "XRC_TGT";
}

const char* name(QueuePairState state) {
    switch (state) {
        case QueuePairState::reset:
            return "RESET";
        case QueuePairState::initialized:
            return "INIT";
        case QueuePairState::ready_to_receive:
            return "RTR";
        case QueuePairState::ready:
            return "RTS";
        case QueuePairState::error:
            return "ERR";
    }
    return "unknown";
}

// A device's name is whatever its program chose.
std::string quoted(const std::string& text) {
    std::string safe = "\"";
    for (const char c : text) safe += c < ' ' || c > '~' || c == '"' || c == '\\' ? '?' : c;
    return safe + '"';
}

}  // namespace

std::string describe(const std::string& device, std::span<const QueuePairFacts> queue_pairs) {
    std::string text = fmt::format("name = {}\n", quoted(device));
    for (const QueuePairFacts& pair : queue_pairs) {
        text += fmt::format(
            "[[queue_pairs]]\nnumber = {}\ntransport = \"{}\"\nstate = \"{}\"\nrequests = {}\n"
            "messages = {}\nbytes_sent = {}\nbytes_received = {}\nnot_ready = {}\n",
            pair.number, name(pair), name(pair.state), pair.requests, pair.messages,
            pair.bytes_sent, pair.bytes_received, pair.not_ready);
        if (pair.peer) text += fmt::format("peer = {}\n", *pair.peer);
        text += "[queue_pairs.faults]\n";
        for (std::size_t i = 0; i < kFaultActions; ++i)
            if (pair.faults[i] != 0)
                text += fmt::format("{} = {}\n", name(static_cast<FaultAction>(i)), pair.faults[i]);
    }
    return text;
}

Descriptor file_of(const std::string& text) {
    Descriptor file(memfd_create("verbatim-description", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const bool written =
        file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (!written || fcntl(file.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) != 0)
        throw Error(Errc::out_of_memory, "description of the device",
                    "no memory or no descriptor is left for its file",
                    "free memory, or raise the limit of open files (ulimit -n)");
    return file;
}

}  // namespace verbatim::softnic
