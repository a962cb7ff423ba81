// What a caller asks of a queue pair (work requests) and what it hears back (completions), free of
// formats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/driver/error.hpp>

namespace verbatim::mlx5 {

// Values are the mlx5 opcodes of the control segment (PRM, "Send WQE opcodes").
enum class Opcode : std::uint8_t {
    nop = 0x00,
    write = 0x08,
    write_immediate = 0x09,
    send = 0x0a,
    send_immediate = 0x0b,
    read = 0x10,
    compare_swap = 0x11,
    fetch_add = 0x12,
};

// One gathered or scattered piece of registered local memory.
struct Element {
    std::uint64_t address = 0;
    std::uint32_t bytes = 0;  // 1 .. 2^31
    std::uint32_t local_key = 0;
};

// One request. The spans are read during the call only.
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
    std::span<const std::byte> inline_payload;  // instead of elements; copied into the work request
    std::uint64_t compare = 0;                  // compare_swap
    std::uint64_t swap_or_add = 0;              // compare_swap: swap; fetch_add: addend
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
    std::uint8_t syndrome = 0, vendor_syndrome = 0;  // of an error completion
    std::uint32_t bytes = 0;                         // received, or read
    std::uint32_t immediate = 0;                     // host byte order
    std::uint32_t queue_pair = 0;                    // number
};

}  // namespace verbatim::mlx5
