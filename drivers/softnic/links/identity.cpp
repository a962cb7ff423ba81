// Naming and binding of listeners.
#include "identity.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace verbatim::softnic {
namespace {

[[noreturn]] void fail(const char* step, int cause) {
    throw Error(Errc::device_error, "software NIC listener",
                fmt::format("{}: {}", step, std::strerror(cause)),
                "raise the limit of open files (ulimit -n)");
}

Descriptor open_listener() {
    Descriptor socket;
    if (const int error = open_local_socket(socket); error != 0) fail("socket", error);
    return socket;
}

// False: another process has that name.
bool claim_name(const Descriptor& socket, const std::string& name) {
    const int error = bind_local_socket(socket, name);
    if (error != 0 && error != EADDRINUSE) fail("bind", error);
    return error == 0;
}

std::string slot_name(std::uint32_t slot) {
    return fmt::format("{}{}-{}", kSlotPrefix, geteuid(), slot);
}

// Users of this network namespace who hold the slot: each has slots of his own.
std::vector<unsigned> holders(std::uint32_t slot) {
    std::vector<unsigned> users;
    for (const NamedSocket& socket : named_sockets(kSlotPrefix).value_or(NamedSockets{})) {
        unsigned user = 0, held = 0;
        const char* const numbers = socket.name.c_str() + kSlotPrefix.size();
        if (std::sscanf(numbers, "%u-%u", &user, &held) == 2 && held == slot) users.push_back(user);
    }
    return users;
}

// No secret: the process that may bind the slot's name is the slot.
Nonce slot_nonce(std::uint32_t slot) {
    Nonce nonce{};
    const std::string text = fmt::format("slot {}", slot);
    std::copy(text.begin(), text.end(), nonce.begin());
    return nonce;
}

}  // namespace

Identity random_identity() {
    Identity identity;
    identity.nonce = random_nonce();
    identity.socket_name = kRandomPrefix;
    for (const std::uint8_t byte : random_nonce())
        identity.socket_name += fmt::format("{:02x}", byte);
    identity.listener = open_listener();
    if (!claim_name(identity.listener, identity.socket_name)) fail("bind", EADDRINUSE);
    // Any start, so that numbers of different devices are told apart in logs.
    identity.first_number = (std::uint32_t{identity.nonce[0]} << 8 | identity.nonce[1]) + 0x100;
    identity.last_number = kLastNumber;
    return identity;
}

Identity claim_slot() {
    Identity identity;
    identity.listener = open_listener();
    constexpr std::uint32_t kUsable = kSlots - 2;
    const auto start = static_cast<std::uint32_t>(getpid());
    for (std::uint32_t i = 0; i < kUsable; ++i) {
        const std::uint32_t slot = 1 + (start + i) % kUsable;
        identity.socket_name = slot_name(slot);
        if (!claim_name(identity.listener, identity.socket_name)) continue;
        identity.nonce = slot_nonce(slot);
        identity.by_slot = true;
        identity.first_number = slot << kIndexBits;
        identity.last_number = identity.first_number + (1U << kIndexBits) - 1;
        return identity;
    }
    throw Error(Errc::out_of_memory, "software NIC",
                fmt::format("all {} devices that one user may open on a host are open", kUsable),
                "end some of the programs that use it");
}

QueuePairAddress address_of_number(std::uint32_t number) {
    QueuePairAddress address;
    address.kind = kAddressKind;
    address.number = number;
    const std::uint32_t slot = number >> kIndexBits;
    address.nonce = slot_nonce(slot);
    const std::string name = slot_name(slot);
    std::copy(name.begin(), name.end(), address.local_socket.begin());
    return address;
}

std::string explain_absence(std::uint32_t number) {
    const std::vector<unsigned> users = holders(number >> kIndexBits);
    if (users.empty())
        return "no process of this network namespace has that number: it has ended, or runs in "
               "another network namespace or on another host";
    if (std::find(users.begin(), users.end(), geteuid()) == users.end())
        return fmt::format(
            "the process that has this number runs as uid {}, this one as uid {}: run both as the "
            "same user",
            users.front(), geteuid());
    return "its process is there, but that queue pair is not, or not connected to this one";
}

}  // namespace verbatim::softnic
