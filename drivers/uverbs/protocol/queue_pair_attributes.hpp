// Attributes of queue pairs as programs change them: which ones each change of state needs and may
// bring, which values there are, and what a query answers.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>

namespace verbatim::uverbs {

// Bits of ib_uverbs_modify_qp::attr_mask (enum ibv_qp_attr_mask).
enum : std::uint32_t {
    kState = 1u << 0,
    kCurrentState = 1u << 1,
    kDrainNotice = 1u << 2,
    kAccess = 1u << 3,
    kKeyIndex = 1u << 4,
    kPort = 1u << 5,
    kQueueKey = 1u << 6,
    kAddress = 1u << 7,
    kMtu = 1u << 8,
    kTimeout = 1u << 9,
    kRetries = 1u << 10,
    kRnrRetries = 1u << 11,
    kReceivePacket = 1u << 12,
    kReadsOut = 1u << 13,
    kAlternative = 1u << 14,
    kRnrTimer = 1u << 15,
    kSendPacket = 1u << 16,
    kReadsIn = 1u << 17,
    kMigration = 1u << 18,
    kDestination = 1u << 20,
    kRateLimit = 1u << 25,
};
// Values of its qp_state (enum ibv_qp_state).
enum State : std::uint8_t {
    kReset,
    kInit,
    kReadyToReceive,
    kReadyToSend,
    kDrained,
    kSendError,
    kError
};
// Values of ib_uverbs_create_qp::qp_type (enum ibv_qp_type).
enum Type : std::uint8_t {
    kReliable = 2,
    kUnreliable = 3,
    kDatagram = 4,
    kXrcInitiator = 9,
    kXrcTarget = 10
};

// Whether there is such a type at all: raw packets, two of XRC and the drivers' own.
bool is_type(std::uint8_t type) noexcept;
// Which changes of state there are (InfiniBand Architecture Specification, "Queue Pair States").
bool may_follow(std::uint8_t from, std::uint8_t to) noexcept;
// Attributes that a change of state must bring (the same table, as rdma-core's manual has it).
std::uint32_t needed(std::uint8_t type, std::uint8_t from, std::uint8_t to) noexcept;
// Attributes that it may bring besides (the same table).
std::uint32_t allowed(std::uint8_t type, std::uint8_t from, std::uint8_t to) noexcept;
// Attributes that queue pairs of this type have not, and kernels take no notice of.
std::uint32_t ignored(std::uint8_t type) noexcept;

// 0, or what is wrong with the values.
int check_values(const ib_uverbs_modify_qp& change, std::uint8_t from) noexcept;
void keep_all(ib_uverbs_query_qp_resp& facts, const ib_uverbs_modify_qp& change) noexcept;

}  // namespace verbatim::uverbs
