// Asks the firmware for its atomic capabilities (PRM, QUERY_HCA_CAP with the atomic capability
// type).
#include "atomic_support.hpp"

#include <endian.h>
#include <infiniband/mlx5dv.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbatim::rdma {
namespace {

constexpr std::uint16_t kQueryCapabilities = 0x100;
constexpr std::uint16_t kAtomic = 3, kCurrent = 1;
// Compare-and-swap, fetch-and-add.
constexpr std::uint16_t kPlainOperations = 1 << 0 | 1 << 1, kMaskedOperations = 1 << 2 | 1 << 3;
constexpr std::uint16_t kFourBytes = 1 << 2, kEightBytes = 1 << 3;
// Byte order of results of 8 bytes; others are big endian.
constexpr std::uint8_t kOrderMask = 0xc0, kHostOrder = 0x40;

struct Query {
    std::uint16_t opcode = htobe16(kQueryCapabilities);
    std::uint16_t user = 0;
    std::uint16_t reserved0 = 0;
    std::uint16_t modifier = htobe16(kAtomic << 1 | kCurrent);
    std::array<std::uint8_t, 8> reserved1{};
};
static_assert(sizeof(Query) == 16);

struct Answer {
    std::uint8_t status = 0;
    std::array<std::uint8_t, 15> reserved0{};
    std::array<std::uint8_t, 8> reserved1{};
    std::uint8_t order = 0;  // [7:6] atomic_req_8B_endianness_mode
    std::array<std::uint8_t, 9> reserved4{};
    std::uint16_t operations = 0;
    std::uint16_t reserved2 = 0;
    std::uint16_t sizes = 0;  // of queue pairs: bit n for 2^n bytes
    std::array<std::uint8_t, 4096 - 24> reserved3{};
};
static_assert(sizeof(Answer) == 16 + 4096);
static_assert(offsetof(Answer, order) == 16 + 8);
static_assert(offsetof(Answer, operations) == 16 + 18 && offsetof(Answer, sizes) == 16 + 22);

}  // namespace

AtomicSupport query_atomics(ibv_context* context, bool verbs_atomics) noexcept {
    const Query query;
    Answer answer;
    if (mlx5dv_devx_general_cmd(context, &query, sizeof query, &answer, sizeof answer) != 0 ||
        answer.status != 0)
        return {.plain = verbs_atomics};
    const std::uint16_t operations = be16toh(answer.operations), sizes = be16toh(answer.sizes);
    constexpr std::uint16_t kBoth = kFourBytes | kEightBytes;
    AtomicSupport support;
    support.plain =
        (operations & kPlainOperations) == kPlainOperations && (sizes & kEightBytes) != 0;
    support.masked =
        (operations & kMaskedOperations) == kMaskedOperations && (sizes & kBoth) == kBoth;
    if ((answer.order & kOrderMask) != kHostOrder) support.big_endian_results = 4 | 8;
    return support;
}

}  // namespace verbatim::rdma
