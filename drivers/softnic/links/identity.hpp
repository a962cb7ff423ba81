// Under which name a device answers its peers, and which numbers its queue pairs get. A device of
// our own hands its whole address to the peer. A program of rdma-core tells its peer a queue pair
// number and nothing else, so there the number must lead to the process: its high bits are a slot,
// which a device claims by binding an abstract Unix socket that is named after user and slot. Such
// a name vanishes with its process, however that ends. Control path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <verbatim/driver/device.hpp>

#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"

namespace verbatim::softnic {

// How the names of listeners begin: of devices of unmodified programs, which end with the user and
// the slot; and of others.
inline constexpr std::string_view kSlotPrefix = "verbatim-uverbs-";
inline constexpr std::string_view kRandomPrefix = "verbatim-softnic-";

struct Identity {
    Nonce nonce{};
    std::string socket_name;                          // of the listener, in the abstract namespace
    Descriptor listener;                              // bound
    std::uint32_t first_number = 0, last_number = 0;  // of queue pairs
    bool by_slot = false;  // from claim_slot(): a device that needs more numbers claims another one
};

inline constexpr std::uint8_t kAddressKind = 1;  // QueuePairAddress::kind of software NICs

// 24 bits of queue pair number. The first and the last slot stay unused: they hold numbers with a
// meaning of their own (0, 1: management; all ones: multicast).
inline constexpr int kSlotBits = 10, kIndexBits = 14;
inline constexpr std::uint32_t kLastNumber = (1U << (kSlotBits + kIndexBits)) - 1;
inline constexpr std::uint32_t kSlots = 1U << kSlotBits;
inline constexpr std::uint32_t kNumbersOfSlot = 1U << kIndexBits;

// A name that nobody can guess. Throws Error(device_error).
Identity random_identity();
// A free slot of this user. Throws Error(out_of_memory) if all are taken, Error(device_error).
Identity claim_slot();
// Where the queue pair with a number of claim_slot()'s kind would be.
QueuePairAddress address_of_number(std::uint32_t number);
// Why no link to that number came about, as far as can be told from here. For messages.
std::string explain_absence(std::uint32_t number);

}  // namespace verbatim::softnic
