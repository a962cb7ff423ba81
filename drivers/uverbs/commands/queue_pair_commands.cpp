// Commands about queue pairs that are there: their states, and their end.
#include "queue_pair_commands.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <optional>

#include <verbatim/driver/log.hpp>

#include "../objects/xrc_objects.hpp"
#include "../protocol/command.hpp"
#include "../protocol/queue_pair_attributes.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {
namespace {

// How long a request waits to be acknowledged.
std::chrono::nanoseconds once(const ib_uverbs_query_qp_resp& facts) {
    return std::chrono::nanoseconds(std::int64_t{4096} << (facts.timeout & 31));
}

// How long requests wait for a peer that does not answer: 4.096 us * 2^timeout, and again for each
// retry; 0 is for ever. Never less than what a peer may wait for a core on a busy machine.
std::optional<std::chrono::nanoseconds> patience_of(const ib_uverbs_query_qp_resp& facts) {
    constexpr std::chrono::nanoseconds kAtLeast = std::chrono::seconds(1);
    if (facts.timeout == 0) return std::nullopt;
    return std::max(kAtLeast, once(facts) * (facts.retry_cnt + 1));
}

// How long a sender waits before it tries again (InfiniBand Architecture Specification, "RNR NAK
// timer"), in units of 10 us.
std::chrono::nanoseconds not_ready_time(std::uint8_t code) {
    static constexpr std::uint32_t kTimes[] = {
        65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
        48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
        2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    return std::chrono::microseconds(10) * kTimes[code & 31];
}

// Attributes that the engine goes by.
void tell_engine(softnic::QueuePair& engine, const ib_uverbs_modify_qp& change,
                 const ib_uverbs_query_qp_resp& facts) {
    constexpr std::uint32_t kRemoteAccess = 0xe, kReadsAndAtomics = 0xc;
    const std::uint32_t mask = change.attr_mask;
    if ((mask & kQueueKey) != 0) engine.limits().queue_key.store(change.qkey);
    if ((mask & (kAccess | kReadsIn)) != 0) {
        const bool answers = facts.max_dest_rd_atomic != 0;
        engine.setup().set_allowed(static_cast<Access>(facts.qp_access_flags & kRemoteAccess &
                                                       (answers ? ~0u : ~kReadsAndAtomics)));
    }
    if ((mask & kRnrTimer) != 0)
        engine.setup().set_not_ready_for(not_ready_time(change.min_rnr_timer));
    if ((mask & kRnrRetries) != 0) engine.limits().not_ready_retries.store(change.rnr_retry & 7);
}

// 0 is for ever, of the patience too.
void tell_retries(softnic::QueuePair& engine, const ib_uverbs_query_qp_resp& facts) {
    constexpr std::chrono::nanoseconds kNever{0};
    engine.limits().set_retries(facts.timeout == 0 ? kNever : once(facts), facts.retry_cnt);
    engine.setup().streams().set_patience(patience_of(facts).value_or(kNever));
}

bool sends_packets(const DeviceObjects& device, const QueuePair& pair) noexcept {
    return device.facts.packets && pair.type == kReliable;
}

// What the program has told of its peer, which need not be ours.
softnic::FlowOptions flow_options(const DeviceObjects& device,
                                  const ib_uverbs_query_qp_resp& facts) {
    constexpr unsigned kCodeOf256 = 1, kLog2Of256 = 8;
    softnic::FlowOptions options;
    options.foreign = true;
    options.own.place = {device.facts.identity.gid(facts.dest.sgid_index), softnic::kRocePort};
    std::memcpy(options.peer.place.address.data(), facts.dest.dgid,
                options.peer.place.address.size());
    options.peer.place.port = softnic::kRocePort;
    options.peer.queue_pair = facts.dest_qp_num;
    options.peer.first_sequence = facts.rq_psn & softnic::kSequenceMask;
    options.mtu = std::size_t{1} << (facts.path_mtu - kCodeOf256 + kLog2Of256);
    return options;
}

// Packets have IP addresses, and both of one version.
bool may_send_packets(const softnic::FlowOptions& options) noexcept {
    const auto is_local = [](const softnic::StreamPlace& place) {
        return place.address[0] == 0xfe && (place.address[1] & 0xc0) == 0x80;
    };
    return !is_local(options.own.place) && !is_local(options.peer.place) &&
           is_mapped(options.own.place) == is_mapped(options.peer.place);
}

// 0, or an errno.
template <class Open>
int tell_error(const QueuePair& pair, const Open& open) {
    try {
        open();
        return 0;
    } catch (const Error& error) {
        log::error("queue pair {:#x}: {}", pair.engine->view().number, error.what());
        return EADDRINUSE;
    }
}

// Likewise.
int receive_packets(const DeviceObjects& device, QueuePair& pair) {
    const softnic::FlowOptions options = flow_options(device, *pair.facts);
    if (!may_send_packets(options)) {
        log::error(
            "queue pair {:#x}: packets need IP addresses of one version on both sides; choose GID "
            "index 3 here (ibv_rc_pingpong -g, perftest -x), and such a one on the other side",
            pair.engine->view().number);
        return EINVAL;
    }
    return tell_error(pair, [&] { pair.engine->states().receive_packets(options); });
}

// Datagrams of any device come to this one's IP address, and go from there. 0, or an errno.
int open_wire(const DeviceObjects& device, QueuePair& pair, std::uint8_t state) {
    constexpr int kPlaceOfPackets = 3;
    if (!device.facts.packets || pair.type != kDatagram || state != kReadyToReceive) return 0;
    return tell_error(pair, [&] {
        pair.engine->setup().datagrams().open(device.facts.identity.gid(kPlaceOfPackets));
    });
}

void send_packets(QueuePair& pair) {
    pair.engine->states().send_packets(
        {.first_sequence = pair.facts->sq_psn & softnic::kSequenceMask,
         .reads = pair.facts->max_rd_atomic});
}

// The engine's part of a new state, where packets go to the peer; 0 or an errno.
int enter_by_packets(const DeviceObjects& device, QueuePair& pair, std::uint8_t state) {
    softnic::QueuePair& engine = *pair.engine;
    pair.only_receives.store(state == kReadyToReceive);
    switch (state) {
        case kReset:
            return engine.reset(), 0;
        case kInit:
            return engine.states().initialize(), 0;
        case kReadyToReceive:
            return receive_packets(device, pair);
        case kReadyToSend:
            engine.states().resume_sending();
            if (engine.state() == QueuePairState::ready_to_receive) send_packets(pair);
            return 0;
        case kError:
            return engine.fail(), 0;
        default:
            return 0;
    }
}

// The engine's part of a new state.
void enter(QueuePair& pair, std::uint8_t state) {
    softnic::QueuePair& engine = *pair.engine;
    const ib_uverbs_query_qp_resp& facts = *pair.facts;
    Connector& connector = *pair.connector;
    const QueuePairAddress peer = softnic::address_of_number(facts.dest_qp_num);
    pair.only_receives.store(state == kReadyToReceive);
    switch (state) {
        case kReset:
            connector.remove(engine);
            return engine.reset();
        case kInit:
            return engine.states().initialize();
        case kReadyToReceive:
            engine.states().receive_from({peer.nonce, peer.number});
            if (!engine.turns().engines().shared().traits.datagrams())
                connector.add_listener(engine, peer);
            return;
        case kReadyToSend:
            engine.states().resume_sending();
            if (engine.turns().engines().shared().traits.datagrams())
                return engine.states().send_datagrams(facts.sq_psn & softnic::kSequenceMask);
            if (engine.state() == QueuePairState::ready_to_receive)
                connector.add(engine, peer, patience_of(facts));
            return;
        case kError:
            connector.remove(engine);
            return engine.fail();
        default:
            return;
    }
}

int change(DeviceObjects& device, QueuePair& pair, const ib_uverbs_modify_qp& wanted) {
    ib_uverbs_modify_qp change = wanted;
    change.attr_mask &= ~ignored(pair.type);
    ib_uverbs_query_qp_resp& facts = *pair.facts;
    if (pair.engine->state() == QueuePairState::error) facts.qp_state = kError;
    const std::uint8_t from = facts.qp_state;
    const std::uint32_t mask = change.attr_mask;
    // Without a new state the queue pair stays where it is, by the same rules.
    const std::uint8_t to = (mask & kState) != 0 ? change.qp_state : from;
    if (!may_follow(from, to)) return EINVAL;
    if (!device.facts.parked) {  // what nobody executes needs no attributes
        const std::uint32_t must = needed(pair.type, from, to);
        if ((mask & must) != must || (mask & ~(kState | must | allowed(pair.type, from, to))) != 0)
            return EINVAL;
    }
    if (const int error = check_values(change, from); error != 0) return error;
    if ((mask & kAccess) != 0 && !device.facts.firmware.allows(change.qp_access_flags))
        return EOPNOTSUPP;
    keep_all(facts, change);
    if ((mask & kState) != 0 && to == kDrained && from == kReadyToSend && !device.facts.parked)
        pair.engine->states().pause_sending((mask & kDrainNotice) != 0 &&
                                            change.en_sqd_async_notify != 0);
    // Before the peer can begin.
    tell_engine(*pair.engine, change, facts);
    if (from != to && !device.facts.parked) {
        const int error = sends_packets(device, pair) ? enter_by_packets(device, pair, to)
                                                      : open_wire(device, pair, to);
        if (error != 0) return facts.qp_state = from, error;
        if (!sends_packets(device, pair)) enter(pair, to);
    }
    if ((mask & (kTimeout | kRetries)) != 0) tell_retries(*pair.engine, facts);
    // Requests and messages that wait may have another end.
    device.engine_thread.bell().ring();
    return 0;
}

// A target may be changed through several device files at once.
int change(DeviceObjects& device, const ib_uverbs_modify_qp& wanted) {
    QueuePair* const pair = device.queue_pairs.find(wanted.qp_handle);
    if (pair == nullptr) return EINVAL;
    if (pair->target == nullptr) return change(device, *pair, wanted);
    const std::lock_guard lock(pair->target->mutex);
    return pair->target->pair != nullptr ? change(device, *pair->target->pair, wanted) : EINVAL;
}

}  // namespace

int modify_queue_pair(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_modify_qp>();
    // Bits behind the last that this form has.
    if ((wanted.attr_mask & ~(kDestination * 2 - 1)) != 0) return EOPNOTSUPP;
    return change(device, wanted);
}

int modify_queue_pair_extended(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_modify_qp>().base;
    if ((wanted.attr_mask & ~(kRateLimit * 2 - 1)) != 0) return EOPNOTSUPP;
    const int error = change(device, wanted);
    if (error == 0)
        command.reply(ib_uverbs_ex_modify_qp_resp{0, sizeof(ib_uverbs_ex_modify_qp_resp)});
    return error;
}

int query_queue_pair(DeviceObjects& device, const Command& command) {
    QueuePair* const pair = device.queue_pairs.find(command.core<ib_uverbs_query_qp>().qp_handle);
    if (pair == nullptr) return EINVAL;
    std::unique_lock<std::mutex> held;
    QueuePair* real = pair;
    if (pair->target != nullptr) {
        held = std::unique_lock(pair->target->mutex);
        real = pair->target->pair.get();
    }
    if (real == nullptr) return EINVAL;
    ib_uverbs_query_qp_resp& facts = *real->facts;
    if (real->engine->state() == QueuePairState::error) facts.qp_state = kError;
    facts.cur_qp_state = facts.qp_state;
    // Requests that were begun are complete soon, and no others are begun.
    facts.sq_draining = real->engine->limits().paused.load() &&
                                real->engine->turns().engines().requester().outstanding()
                            ? 1
                            : 0;
    command.reply(facts);
    return 0;
}

int destroy_queue_pair(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_qp>().qp_handle;
    QueuePair* const pair = device.queue_pairs.find(handle);
    if (pair == nullptr) return ENOENT;
    if (pair->target != nullptr) {
        pair->target->remove_opener(*pair);
        --pair->open_domain->users;
    } else {
        device.connector.remove(*pair->engine);
        --pair->domain->users, --pair->send_completions->users, --pair->receive_completions->users;
        if (pair->shared_receives != nullptr) --pair->shared_receives->users;
        pair->engine.reset();
    }
    const std::uint32_t events =
        pair->async_events->end_events(pair->user_handle, pair->async_events_sent);
    device.queue_pairs.remove(handle);
    command.reply(ib_uverbs_destroy_qp_resp{events});
    return 0;
}

}  // namespace verbatim::uverbs
