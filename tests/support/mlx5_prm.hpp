// A second description of what lies in queues: tables of fields as the programmer's reference
// manual prints them (offset of the 32-bit word, highest and lowest bit), and a decoder that turns
// bytes into plain values with nothing but them. Neither our structures nor rdma-core's are used
// here: a mistake in either shows as a disagreement. Bits that no field names are reserved, and a
// set one is a complaint. No state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace verbatim::prm {

using Bytes = std::span<const std::byte>;

// What the manual calls the service of a queue pair, as far as it changes the segments.
enum class Service { connected, datagram };

struct Remote {
    std::uint64_t address = 0;
    std::uint32_t key = 0;

    bool operator==(const Remote&) const = default;
};
struct Atomic {
    std::uint64_t swap_or_add = 0, compare = 0;

    bool operator==(const Atomic&) const = default;
};
// Of 4 or 8 bytes; what the operation has no use for is 0.
struct MaskedAtomic {
    std::uint32_t bytes = 0;
    std::uint64_t swap_or_add = 0, compare = 0;
    std::uint64_t swap_mask = 0, compare_mask = 0, field_boundary = 0;

    bool operator==(const MaskedAtomic&) const = default;
};
struct AddressVector {
    std::uint32_t queue_key = 0, number = 0;
    bool extended = false, global = false;
    std::uint32_t rate = 0, service_level = 0, path_bits = 0, destination = 0;
    std::uint64_t mac = 0;  // as it reads
    std::uint32_t traffic_class = 0, hop_limit = 0, source_gid = 0, flow_label = 0;
    std::uint64_t gid_high = 0, gid_low = 0;

    bool operator==(const AddressVector&) const = default;
};
struct Piece {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;  // as it stands there: 0 is 2^31
    std::uint32_t key = 0;

    bool operator==(const Piece&) const = default;
};
struct KeyUpdate {
    bool in_line = false, check_free = false, translation_offset = false, check_number = false;
    std::uint32_t translation_units = 0;
    std::uint64_t mask = 0;
    // The key as it is to be.
    bool free = false, atomic = false, remote_write = false, remote_read = false;
    std::uint32_t number = 0, variant = 0;
    std::uint64_t start = 0, bytes = 0;

    bool operator==(const KeyUpdate&) const = default;
};

// What a send WQE asks for.
struct SendWqe {
    std::uint32_t opcode = 0, modifier = 0, index = 0;
    std::uint32_t number = 0, units = 0;
    std::uint32_t signature = 0, stream = 0;
    std::uint32_t fence = 0;       // 0 none, 1 small, 4 fence
    std::uint32_t completion = 0;  // 2: always
    bool solicited = false;
    std::uint32_t immediate = 0;
    std::optional<AddressVector> address_vector;
    std::optional<Remote> remote;
    std::optional<Atomic> atomic;
    std::optional<MaskedAtomic> masked;
    std::optional<KeyUpdate> update;
    std::vector<std::byte> payload;
    std::vector<Piece> pieces;
    std::vector<std::string> complaints;

    bool operator==(const SendWqe&) const = default;
};
// `wqe` starts with its control segment and is in one piece; it may be longer than it says.
SendWqe describe_send(Bytes wqe, Service service = Service::connected);

struct ReceiveWqe {
    std::uint32_t next_index = 0;  // shared only
    std::vector<Piece> pieces;     // up to the end of the list
    std::vector<std::string> complaints;

    bool operator==(const ReceiveWqe&) const = default;
};
ReceiveWqe describe_receive(Bytes entry, bool shared);

struct Completion {
    std::uint32_t opcode = 0, format = 0;
    bool solicited = false, owner = false;
    std::uint32_t shared_or_user = 0, immediate = 0, byte_count = 0;
    std::uint32_t send_opcode = 0, number = 0, counter = 0;
    std::uint32_t vendor_syndrome = 0, syndrome = 0;  // of errors
    Bytes data;                                       // room for inline data; empty: format 0
};
// 64 bytes, or 128 of which the last 64 are these.
Completion describe_completion(Bytes entry);

// Doorbell records, as their words lie in memory; nothing where reserved bits are set.
std::optional<std::uint32_t> receive_counter(Bytes record);
std::optional<std::uint32_t> send_counter(Bytes record);
std::optional<std::uint32_t> shared_counter(Bytes record);
std::optional<std::uint32_t> consumer_index(Bytes record);

}  // namespace verbatim::prm
