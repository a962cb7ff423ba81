// What two identifiers say to each other while they connect, and when they part, over a local
// SOCK_SEQPACKET socket; one layout for all. The socket lives as long as the connection, so a
// process that dies is noticed.
//   request -> reply -> ready        a connection; datagrams: request -> reply
//   request -> reject, reply -> reject
//   disconnect -> disconnected
// A socket that ends stands for reject before the connection is made, and for disconnect later.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include "endpoint.hpp"

namespace verbatim::rdmacm {

enum class PeerOp : std::uint32_t {
    request = 1,
    reply,
    ready,
    reject,
    disconnect,
    disconnected,
};

inline constexpr std::uint64_t kPeerMagic = 0x7662636d6c6e6b31;  // "vbcmlnk1"
inline constexpr std::uint32_t kPeerVersion = 2;
inline constexpr std::size_t kMaxPrivateBytes = 256;

// What one side says of its queue pair (struct rdma_ucm_conn_param has the same).
struct SideFacts {
    std::uint32_t queue_pair = 0;
    std::uint32_t queue_key = 0;
    std::uint32_t first_packet = 0;  // the number that the peer's packets are to start with
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t flow_control = 0;
    std::uint8_t retries = 0;
    std::uint8_t rnr_retries = 0;
    std::uint8_t shared_receives = 0;
    std::uint8_t queue_pair_type = 0;  // enum ibv_qp_type
    std::uint8_t reserved = 0;
    std::uint32_t ece_vendor = 0, ece_options = 0;
    std::array<std::uint8_t, 16> gid{};
};

struct PeerMessage {
    // These first 16 bytes keep their meaning in every version.
    std::uint64_t magic = kPeerMagic;
    std::uint32_t version = kPeerVersion;
    PeerOp op = PeerOp::reject;
    std::uint32_t reason = 0;         // reject
    std::uint32_t private_bytes = 0;  // request, reply, reject
    SideFacts side;                   // request, reply
    Endpoint source, destination;     // request
    std::array<std::uint8_t, kMaxPrivateBytes> private_data{};
};
static_assert(std::is_trivially_copyable_v<PeerMessage>);

enum class Received : std::uint8_t { message, nothing, ended };

PeerMessage refusal_of(std::uint32_t reason) noexcept;

// Never blocks. False: the peer is gone.
bool send_message(int link, const PeerMessage& message) noexcept;
// A peer that says what makes no sense counts as one that ended.
Received receive_message(int link, PeerMessage& message) noexcept;

}  // namespace verbatim::rdmacm
