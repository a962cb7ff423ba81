// The tables of linux' ib_core, which has them from the specification.
#include "queue_pair_attributes.hpp"

#include <cerrno>

#include "../tree/identity.hpp"

namespace verbatim::uverbs {
namespace {

// Of reliable types: those with a send queue ask and have their requests acknowledged, those that
// receive answer. An XRC queue pair does one of the two.
bool asks(std::uint8_t type) { return type == kReliable || type == kXrcInitiator; }
bool answers(std::uint8_t type) { return type == kReliable || type == kXrcTarget; }
bool acknowledges(std::uint8_t type) { return asks(type) || answers(type); }

template <class T>
void keep(std::uint32_t mask, std::uint32_t bit, T& kept, T given) {
    if ((mask & bit) != 0) kept = given;
}

}  // namespace

bool is_type(std::uint8_t type) noexcept {
    return (type >= kReliable && type <= kDatagram) || (type >= 8 && type <= 10) || type == 0xff;
}

bool may_follow(std::uint8_t from, std::uint8_t to) noexcept {
    if (to == kReset) return true;
    if (to == kError) return from != kReset;
    switch (from) {
        case kReset:
            return to == kInit;
        case kInit:
            return to == kInit || to == kReadyToReceive;
        case kReadyToReceive:
        case kSendError:
            return to == kReadyToSend;
        case kReadyToSend:
        case kDrained:
            return to == kReadyToSend || to == kDrained;
        default:
            return false;
    }
}

std::uint32_t needed(std::uint8_t type, std::uint8_t from, std::uint8_t to) noexcept {
    if (from == kReset && to == kInit)
        return kKeyIndex | kPort | (type == kDatagram ? kQueueKey : kAccess);
    if (from == kInit && to == kReadyToReceive && type != kDatagram)
        return kAddress | kMtu | kDestination | kReceivePacket |
               (answers(type) ? kReadsIn | kRnrTimer : std::uint32_t{0});
    if (from == kReadyToReceive && to == kReadyToSend)
        return kSendPacket | (acknowledges(type) ? kTimeout : std::uint32_t{0}) |
               (asks(type) ? kRetries | kRnrRetries | kReadsOut : std::uint32_t{0});
    return 0;
}

std::uint32_t allowed(std::uint8_t type, std::uint8_t from, std::uint8_t to) noexcept {
    const std::uint32_t common = type == kDatagram ? kQueueKey : kAccess | kAlternative;
    const std::uint32_t timer = answers(type) ? kRnrTimer : std::uint32_t{0};
    const std::uint32_t moves = type == kDatagram ? std::uint32_t{0} : kMigration;
    if (to == kInit) return from == kReset ? 0 : kKeyIndex | kPort | (common & ~kAlternative);
    if (to == kReadyToReceive) return kKeyIndex | common;
    if (to == kReadyToSend) return kCurrentState | common | timer | moves;
    if (to == kDrained && from == kReadyToSend) return kDrainNotice;
    if (to != kDrained) return 0;
    if (type == kDatagram) return kKeyIndex | kQueueKey;
    return kAddress | kKeyIndex | common | timer | moves |
           (acknowledges(type) ? kPort | kTimeout : std::uint32_t{0}) |
           (asks(type) ? kRetries | kRnrRetries | kReadsOut : std::uint32_t{0}) |
           (answers(type) ? std::uint32_t{kReadsIn} : 0);
}

std::uint32_t ignored(std::uint8_t type) noexcept {
    if (type == kXrcInitiator) return kReadsIn | kRnrTimer;
    return type == kXrcTarget ? kReadsOut | kRetries | kRnrRetries : std::uint32_t{0};
}

// Atomics and reads: as many as the device says.
int check_values(const ib_uverbs_modify_qp& change, std::uint8_t from) noexcept {
    constexpr std::uint8_t kMaxReads = 16, kMaxMtu = 5, kMaxTimer = 31;
    constexpr std::uint32_t kMaxNumber = 0xffffff;
    const std::uint32_t mask = change.attr_mask;
    const auto wrong = [mask](std::uint32_t bit, bool bad) { return (mask & bit) != 0 && bad; };
    const bool any =
        wrong(kPort, change.port_num != 1) || wrong(kKeyIndex, change.pkey_index != 0) ||
        wrong(kCurrentState, change.cur_qp_state != from) ||
        wrong(kMtu, change.path_mtu == 0 || change.path_mtu > kMaxMtu) ||
        wrong(kReadsOut, change.max_rd_atomic > kMaxReads) ||
        wrong(kReadsIn, change.max_dest_rd_atomic > kMaxReads) ||
        wrong(kRnrTimer, change.min_rnr_timer > kMaxTimer) ||
        wrong(kDestination, change.dest_qp_num > kMaxNumber) ||
        wrong(kAddress, change.dest.port_num != 1) ||
        // Over Ethernet there is always a global part, and no second path.
        wrong(kAddress, change.dest.is_global == 0 || change.dest.sgid_index >= Identity::kGids) ||
        wrong(kAlternative, true);
    return any ? EINVAL : 0;
}

void keep_all(ib_uverbs_query_qp_resp& facts, const ib_uverbs_modify_qp& change) noexcept {
    const std::uint32_t mask = change.attr_mask;
    keep(mask, kState, facts.qp_state, change.qp_state);
    keep(mask, kAccess, facts.qp_access_flags, change.qp_access_flags);
    keep(mask, kKeyIndex, facts.pkey_index, change.pkey_index);
    keep(mask, kPort, facts.port_num, change.port_num);
    keep(mask, kQueueKey, facts.qkey, change.qkey);
    keep(mask, kAddress, facts.dest, change.dest);
    keep(mask, kMtu, facts.path_mtu, change.path_mtu);
    keep(mask, kTimeout, facts.timeout, change.timeout);
    keep(mask, kRetries, facts.retry_cnt, change.retry_cnt);
    keep(mask, kRnrRetries, facts.rnr_retry, change.rnr_retry);
    keep(mask, kReceivePacket, facts.rq_psn, change.rq_psn);
    keep(mask, kReadsOut, facts.max_rd_atomic, change.max_rd_atomic);
    keep(mask, kRnrTimer, facts.min_rnr_timer, change.min_rnr_timer);
    keep(mask, kSendPacket, facts.sq_psn, change.sq_psn);
    keep(mask, kReadsIn, facts.max_dest_rd_atomic, change.max_dest_rd_atomic);
    keep(mask, kDestination, facts.dest_qp_num, change.dest_qp_num);
}

}  // namespace verbatim::uverbs
