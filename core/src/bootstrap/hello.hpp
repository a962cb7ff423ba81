// What the two sides of a connection tell each other over TCP before, and a little after, there is
// a queue pair. Pure: bytes to structs and back. docs/wire.md, "Hello", is the text. Whatever
// arrives is checked here; nothing in it is trusted. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/core/client.hpp>
#include <verbatim/driver/device.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/fixed_shape.hpp>

namespace verbatim {

inline constexpr std::uint16_t kProtocolVersion = 7;

// ---- frames: 24 bytes of header, the same in every version, then a body ----
enum class FrameType : std::uint16_t {
    hello = 1,
    ready = 2,
    refused = 3,
    bye = 4,
    move = 5,
    proof = 6
};

struct FrameHeader {
    static constexpr std::size_t kBytes = 24;
    static constexpr std::uint32_t kMaxBody = 64 * 1024;
    FrameType type = FrameType::hello;
    std::uint32_t body_bytes = 0;
};
struct Frame {
    FrameType type = FrameType::hello;
    std::vector<std::byte> body;
};

std::vector<std::byte> encode_frame(FrameType type, std::span<const std::byte> body);

// Throws Error about `object`, as early as the bytes so far allow: protocol_error (not Verbatim, or
// not a frame), version_mismatch, unsupported (another byte order).
void check_frame_start(std::span<const std::byte> bytes, const std::string& object);
// `bytes`: exactly FrameHeader::kBytes. Throws as above.
FrameHeader parse_frame_header(std::span<const std::byte> bytes, const std::string& object);

// ---- bodies ----
// A side's half of the connection. Addresses are those of the side that sends the hello.
struct Hello {
    // This side always polls, and needs no wake-ups. Where both say so there are none.
    static constexpr std::uint64_t kAlwaysPolls = 1;
    // This side understands the frame `move`: its queue pair may be replaced.
    static constexpr std::uint64_t kMoves = 2;
    static constexpr std::uint64_t kHearsOfEnds = 4;  // of grants, through the ring

    std::uint32_t page_bytes = 4096;
    std::uint32_t pointer_bytes = 8;
    std::uint32_t ring_format = 2;
    std::uint64_t features = 0;           // what this side can do
    std::uint64_t required_features = 0;  // what the peer must be able to do
    QueuePairAddress queue_pair;
    std::uint64_t ring_address = 0, ring_bytes = 0;  // where the peer's messages go
    std::uint64_t credit_address = 0;                // where the peer says how much it consumed
    std::uint64_t armed_address = 0;                 // where the peer writes its generations
    // `words_key`: of the two words that the peer writes.
    std::uint32_t ring_key = 0, words_key = 0;
    mlx5::RemoteMemory posted;            // where the peer reads what was posted
    mlx5::RemoteMemory note;              // where the peer writes its notes; address 0: nowhere
    std::uint64_t tag_key = 0;            // for the tags of records in this side's ring
    std::uint32_t user = 0, process = 0;  // for messages; proven by the device where it matters
    std::string device_name;              // for messages
    // In extensions that a reader may skip.
    struct Said {
        std::uint64_t longest_message = 0;     // that this side takes in fragments; 0: none
        std::optional<ClientIdentity> client;  // of a caller that dials again
    };
    Said said;
};

std::vector<std::byte> encode_hello(const Hello& hello);
// Throws Error(protocol_error | unsupported) about `object`.
Hello parse_hello(std::span<const std::byte> body, const std::string& object = "hello");
// Throws Error(unsupported) naming what differs.
void check_compatible(const Hello& mine, const Hello& peer, const std::string& object);

// Throws Error(protocol_error) about `object`. A side that moves says a hello again, in which only
// the queue pair and the features may differ from `before`.
void check_move(const Hello& before, const Hello& after, const std::string& object);

// Why one side turns the other down.
struct Refusal {
    Errc code = Errc::protocol_error;
    std::string text;
};
std::vector<std::byte> encode_refusal(const Refusal& refusal);
// Never throws: a broken refusal is still a refusal.
Refusal parse_refusal(std::span<const std::byte> body);

// The last frame of a side: how far its messages go.
struct Bye {
    std::uint64_t sent_position = 0;   // of the closing side's records
    std::uint64_t taken_position = 0;  // of the other side's
};
std::vector<std::byte> encode_bye(const Bye& bye);
Bye parse_bye(std::span<const std::byte> body, const std::string& object);

// Bytes from a stranger, fit for a message: unprintable ones replaced, cut to `most`.
std::string printable(std::span<const std::byte> bytes, std::size_t most);

}  // namespace verbatim
