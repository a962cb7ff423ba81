// Source: PRM, QUERY_HCA_CAP and QUERY_QP; rdma-core's mlx5_ifc.h has the layouts. Of all
// capabilities only those are told that a driver of queues needs; the rest is zero.
#include "firmware.hpp"

#include <endian.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>

namespace verbatim::uverbs {
namespace {

std::mutex g_mutex;
DeviceTraits g_traits;  // of new devices

constexpr std::uint16_t kQueryCapabilities = 0x100, kQueryQueuePair = 0x50b;
constexpr std::uint16_t kGeneral = 0, kAtomic = 3;  // kinds of capabilities

struct Request {
    std::uint16_t opcode = 0, user = 0, reserved = 0, modifier = 0;
};

// A header of zeros says that all is well.
constexpr std::size_t kHeaderBytes = 16;
using CapabilityAnswer = std::array<std::uint8_t, kHeaderBytes + 4096>;

void put16(CapabilityAnswer& answer, std::size_t at, std::uint16_t value) noexcept {
    answer[kHeaderBytes + at] = static_cast<std::uint8_t>(value >> 8);
    answer[kHeaderBytes + at + 1] = static_cast<std::uint8_t>(value);
}

void say_general(const DeviceTraits& traits, CapabilityAnswer& answer) noexcept {
    constexpr std::size_t kInOrderByte = 12;
    constexpr std::uint8_t kInOrder = 0x20;
    if (traits.data_in_order) answer[kHeaderBytes + kInOrderByte] = kInOrder;
}

void say_atomics(const DeviceTraits& traits, CapabilityAnswer& answer) noexcept {
    constexpr std::size_t kOrderByte = 8, kOperations = 18, kOperandSizes = 22;
    constexpr std::uint8_t kHostOrder = 0x40;
    constexpr std::uint16_t kPlain = 1 << 0 | 1 << 1, kMasked = 1 << 2 | 1 << 3;
    if (!traits.atomics) return;
    if ((traits.big_endian_results & 8) == 0) answer[kHeaderBytes + kOrderByte] = kHostOrder;
    put16(answer, kOperations, traits.masked_atomics ? kPlain | kMasked : kPlain);
    put16(answer, kOperandSizes, traits.masked_atomics ? 4 | 8 : 8);
}

}  // namespace

[[gnu::visibility("default")]] void set_new_device_traits(const DeviceTraits& traits) noexcept {
    const std::lock_guard lock(g_mutex);
    g_traits = traits;
}

Firmware::Firmware() noexcept
    : traits_([] {
          const std::lock_guard lock(g_mutex);
          return g_traits;
      }()) {}

int Firmware::answer(Method& method) const noexcept {
    if (!traits_.answers_firmware_queries) return EPROTONOSUPPORT;
    if (method.object() == MLX5_IB_OBJECT_DEVX && method.number() == MLX5_IB_METHOD_DEVX_OTHER)
        return general(method);
    if (method.object() == MLX5_IB_OBJECT_DEVX_OBJ &&
        method.number() == MLX5_IB_METHOD_DEVX_OBJ_QUERY)
        return query_queue_pair(method);
    return EPROTONOSUPPORT;
}

int Firmware::general(Method& method) const noexcept {
    const auto request = method.structure<Request>(MLX5_IB_ATTR_DEVX_OTHER_CMD_IN);
    if (be16toh(request.opcode) != kQueryCapabilities) return EOPNOTSUPP;
    CapabilityAnswer answer{};
    switch (be16toh(request.modifier) >> 1) {
        case kGeneral:
            say_general(traits_, answer);
            break;
        case kAtomic:
            say_atomics(traits_, answer);
            break;
        default:
            return EOPNOTSUPP;
    }
    method.answer(MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, answer);
    return 0;
}

int Firmware::query_queue_pair(Method& method) const noexcept {
    const auto request = method.structure<Request>(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN);
    if (be16toh(request.opcode) != kQueryQueuePair) return EOPNOTSUPP;
    constexpr std::size_t kBytes = 272, kInOrderByte = 24 + 11;
    constexpr std::uint8_t kInOrder = 0x20;
    std::array<std::uint8_t, kBytes> answer{};
    if (traits_.data_in_order) answer[kInOrderByte] = kInOrder;
    method.answer(MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, answer);
    return 0;
}

// The kernel shows atomics only where their results arrive in host byte order.
void Firmware::limit(ib_uverbs_query_device_resp& facts) const noexcept {
    if (!traits_.atomics || (traits_.big_endian_results & 8) != 0) facts.atomic_cap = 0;
    facts.max_qp_rd_atom = std::min<std::uint32_t>(facts.max_qp_rd_atom, traits_.reads_at_once);
    facts.max_qp_init_rd_atom =
        std::min<std::uint32_t>(facts.max_qp_init_rd_atom, traits_.reads_at_once);
}

bool Firmware::allows(std::uint32_t access) const noexcept {
    return traits_.atomics || (access & IB_UVERBS_ACCESS_REMOTE_ATOMIC) == 0;
}

}  // namespace verbatim::uverbs
