// A caller gives work requests to a queue pair and gets completions back; neither depends on
// formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/error.hpp>

namespace verbatim::mlx5 {

// Operations of work requests. Values are the mlx5 opcodes of the control segment (PRM, "Send WQE
// opcodes"). As local_invalidate, bind_window travels as an update of a memory key (wire_opcode()).
// Atomics of 4 bytes travel, and complete, as masked ones; where the device has none they are
// Errc::unsupported.
enum class Opcode : std::uint8_t {
    nop = 0x00,
    send_invalidate = 0x01,
    write = 0x08,
    write_immediate = 0x09,
    send = 0x0a,
    send_immediate = 0x0b,
    read = 0x10,
    compare_swap = 0x11,
    fetch_add = 0x12,
    masked_compare_swap = 0x14,
    masked_fetch_add = 0x15,
    local_invalidate = 0x25,
    bind_window = 0x26,
};

// One gathered or scattered piece of registered local memory.
struct Element {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;  // 1 .. 2^31
    std::uint32_t local_key = 0;
};

// The binding of a memory window: a part of a registered region, under a key of its own. A window
// of type 1 serves every queue pair of its domain; the library chooses its key. One of type 2
// serves the queue pair that bound it; its owner chooses the key's low byte (InfiniBand
// Architecture Specification, "Memory Windows").
struct WindowBinding {
    std::uint32_t window_key = 0;  // as it is before
    std::uint32_t new_key = 0;     // only its low byte differs
    std::uint32_t local_key = 0;   // of the region, which must allow binding
    std::uint64_t address = 0;
    // Up to 2^31. 0 closes a window of type 1; one of type 2 is closed by local_invalidate.
    std::uint32_t bytes = 0;
    bool remote_read = false, remote_write = false, remote_atomic = false;
    bool zero_based = false;    // peers count from 0 instead of `address`
    bool of_queue_pair = true;  // type 2
};

// A key for the next time that this window is opened: only its low byte differs.
constexpr std::uint32_t next_window_key(std::uint32_t key) noexcept {
    return (key & ~0xffU) | ((key + 1) & 0xff);
}

// One request. The spans and `window` are read during the call only.
struct WorkRequest {
    Opcode opcode = Opcode::nop;
    bool signaled = true;  // asks for a completion of its own
    bool fence = false;    // waits for earlier reads and atomics of this queue pair
    bool solicited =
        false;             // two-sided and immediate operations: raises the peer's solicited event
    std::uint64_t id = 0;  // handed back in Completion::id
    std::uint64_t remote_address = 0;
    std::uint32_t remote_key = 0;
    std::uint32_t immediate = 0;                // host byte order
    std::span<const Element> elements;          // gather list (scatter list for read and atomics)
    std::span<const std::byte> inline_payload;  // before the elements; copied into the work request
    // An atomic has 8 or 4 bytes, as its one element; operands are in the low bytes.
    std::uint64_t compare = 0;      // compare_swap
    std::uint64_t swap_or_add = 0;  // compare_swap: swap; fetch_add: addend
    // Masked: bits that are compared, and bits that are swapped.
    std::uint64_t compare_mask = 0, swap_mask = 0;
    // masked_fetch_add: highest bit of each field; no carry leaves one. 0: one field.
    std::uint64_t field_ends = 0;
    std::uint32_t invalidated_key = 0;  // the peer's (send_invalidate) or ours (local_invalidate)
    const WindowBinding* window = nullptr;  // bind_window
};

// One buffer list to receive into. No elements: takes immediates and empty messages.
struct ReceiveRequest {
    std::uint64_t id = 0;
    std::span<const Element> elements;  // read during the call only
};

enum class CompletionKind : std::uint8_t { send_side, receive, receive_immediate };

// One retired work request.
struct Completion {
    std::uint64_t id = 0;
    Errc status = Errc::ok;
    CompletionKind kind = CompletionKind::send_side;
    Opcode opcode = Opcode::nop;  // send side only
    bool has_immediate = false;
    bool invalidated = false;                        // receive: the peer invalidated a key of ours
    std::uint8_t syndrome = 0, vendor_syndrome = 0;  // of an error completion
    std::uint32_t bytes = 0;                         // received, or read
    std::uint32_t immediate = 0;                     // host byte order; the key, if invalidated
    std::uint32_t queue_pair = 0;                    // number
};

}  // namespace verbatim::mlx5
