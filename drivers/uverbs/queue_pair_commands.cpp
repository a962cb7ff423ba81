// Commands about queue pairs: making them in the program's memory, and their states.
#include <rdma/mlx5-abi.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <utility>

#include "datagram_route.hpp"
#include "device_file.hpp"

namespace verbatim::uverbs {
namespace {

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
};
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
enum Type : std::uint8_t { kReliable = 2, kUnreliable = 3, kDatagram = 4 };

// Which changes of state there are (InfiniBand Architecture Specification, "Queue Pair States").
bool may_follow(std::uint8_t from, std::uint8_t to) {
    if (to == kReset || to == kError) return true;
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

// Attributes that a change of state must bring (the same table, as rdma-core's manual has it).
std::uint32_t needed(std::uint8_t type, std::uint8_t from, std::uint8_t to) {
    if (from == kReset && to == kInit)
        return kKeyIndex | kPort | (type == kDatagram ? kQueueKey : kAccess);
    if (from == kInit && to == kReadyToReceive && type != kDatagram) {
        const std::uint32_t connected = kAddress | kMtu | kDestination | kReceivePacket;
        return type == kReliable ? connected | kReadsIn | kRnrTimer : connected;
    }
    if (from == kReadyToReceive && to == kReadyToSend)
        return type == kReliable ? kTimeout | kRetries | kRnrRetries | kSendPacket | kReadsOut
                                 : std::uint32_t{kSendPacket};
    return 0;
}

// Attributes that it may bring besides (the same table).
std::uint32_t allowed(std::uint8_t type, std::uint8_t from, std::uint8_t to) {
    const std::uint32_t common = type == kDatagram ? kQueueKey : kAccess | kAlternative;
    const std::uint32_t timer = type == kReliable ? kRnrTimer : std::uint32_t{0};
    const std::uint32_t moves = type == kDatagram ? std::uint32_t{0} : kMigration;
    if (to == kInit) return from == kReset ? 0 : kKeyIndex | kPort | (common & ~kAlternative);
    if (to == kReadyToReceive) return kKeyIndex | common;
    if (to == kReadyToSend) return kCurrentState | common | timer | moves;
    if (to == kDrained && from == kReadyToSend) return kDrainNotice;
    if (to != kDrained) return 0;
    if (type == kDatagram) return kKeyIndex | kQueueKey;
    constexpr std::uint32_t kReliableOnly =
        kTimeout | kRetries | kRnrRetries | kReadsOut | kReadsIn;
    return kPort | kAddress | kKeyIndex | common | timer | moves |
           (type == kReliable ? kReliableOnly : 0);
}

// 0, or what is wrong with the values. Atomics and reads: as many as the device says.
int check_values(const ib_uverbs_modify_qp& change, std::uint8_t from) {
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
        wrong(kAddress, change.dest.is_global != 0 && change.dest.sgid_index >= Identity::kGids);
    return any ? EINVAL : 0;
}

template <class T>
void keep(std::uint32_t mask, std::uint32_t bit, T& kept, T given) {
    if ((mask & bit) != 0) kept = given;
}

void keep_all(ib_uverbs_query_qp_resp& facts, const ib_uverbs_modify_qp& change) {
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

std::optional<mlx5::Transport> transport_of(std::uint8_t type) {
    switch (type) {
        case kReliable:
            return mlx5::Transport::reliable_connection;
        case kUnreliable:
            return mlx5::Transport::unreliable_connection;
        case kDatagram:
            return mlx5::Transport::unreliable_datagram;
        default:
            return std::nullopt;
    }
}

void ask_for_flow(void* context, std::uint32_t number) noexcept {
    const auto& pair = *static_cast<const QueuePair*>(context);
    pair.connector->add_flow(*pair.engine, softnic::address_of_number(number));
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
void tell_engine(softnic::QueuePair& engine, const ib_uverbs_modify_qp& change) {
    constexpr std::uint32_t kRemoteAccess = 0xe;
    const std::uint32_t mask = change.attr_mask;
    if ((mask & kQueueKey) != 0) engine.set_queue_key(change.qkey);
    if ((mask & kAccess) != 0)
        engine.set_allowed(static_cast<Access>(change.qp_access_flags & kRemoteAccess));
    if ((mask & kRnrTimer) != 0) engine.set_not_ready_for(not_ready_time(change.min_rnr_timer));
    if ((mask & kRnrRetries) != 0) engine.set_not_ready_retries(change.rnr_retry & 7);
}

// 0, or what is wrong with the sizes that libmlx5 tells.
int check_sizes(const mlx5_ib_create_qp& provider) {
    constexpr std::uint32_t kMaxBlocks = 1u << 15, kMaxStride = 16;
    const auto good = [](std::uint32_t count) {
        return count == 0 || (std::has_single_bit(count) && count <= kMaxBlocks);
    };
    const bool all = good(provider.sq_wqe_count) && good(provider.rq_wqe_count) &&
                     provider.rq_wqe_shift <= kMaxStride;
    return all ? 0 : EINVAL;
}

// As mlx5's kernel driver sets it up: received data where the program's libmlx5 does not refuse it,
// what is read only where every request completes, or the program says that it knows. In longer
// entries libmlx5 does not find what was read.
void allow_data_in_entries(softnic::QueuePairParts& parts, std::uint32_t flags, bool all_signaled) {
    if ((flags & MLX5_QP_FLAG_SCATTER_CQE) == 0 ||
        parts.view.transport == mlx5::Transport::unreliable_datagram)
        return;
    const auto is_long = [](const softnic::CompletionQueue& queue) {
        return queue.view().entry_bytes == sizeof(mlx5::Cqe128);
    };
    parts.receive_in_entry =
        is_long(*parts.receive_completions) ? softnic::kDataBeforeEntry : softnic::kDataInEntry;
    const bool reads = parts.view.transport == mlx5::Transport::reliable_connection &&
                       (all_signaled || (flags & MLX5_QP_FLAG_ALLOW_SCATTER_CQE) != 0);
    if (reads && !is_long(*parts.send_completions)) parts.result_in_entry = softnic::kDataInEntry;
}

// The receive queue lies at the start of the buffer, the send queue behind it.
mlx5::QueuePairView view_of(const mlx5_ib_create_qp& provider, bool own_receives) {
    // A queue pair that only receives: nothing is ever posted here.
    alignas(mlx5::kBlockBytes) static std::byte no_block[mlx5::kBlockBytes];
    mlx5::QueuePairView view;
    auto* const buffer = reinterpret_cast<std::byte*>(provider.buf_addr);
    view.receive_stride_log2 = provider.rq_wqe_shift;
    if (own_receives && provider.rq_wqe_count != 0) {
        view.receive_buffer = buffer;
        view.receive_entries = provider.rq_wqe_count;
    }
    const bool sends = provider.sq_wqe_count != 0;
    view.send_buffer =
        sends ? buffer + (std::size_t{provider.rq_wqe_count} << provider.rq_wqe_shift) : no_block;
    view.send_blocks = sends ? provider.sq_wqe_count : 1;
    view.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(provider.db_addr);
    return view;
}

}  // namespace

// libmlx5 has four registers per page, of which the first two are doorbells for posting. Number 0
// has no BlueFlame; those of the last two pages are used without a lock, so they go first.
std::uint32_t DeviceFile::next_register() noexcept {
    constexpr std::uint32_t kLast = 2 * kRegisterPages - 1;
    const std::uint32_t place = kLast - registers_++ % kLast;
    return place / 2 * 4 + place % 2;
}

// The objects that the queue pair will use; 0 or an errno.
int DeviceFile::find_parts(const ib_uverbs_ex_create_qp& wanted, QueuePair& pair) {
    pair.domain = domains_.find(wanted.pd_handle);
    pair.send_completions = completion_queues_.find(wanted.send_cq_handle);
    pair.receive_completions = completion_queues_.find(wanted.recv_cq_handle);
    if (wanted.is_srq != 0) pair.shared_receives = shared_queues_.find(wanted.srq_handle);
    const bool all = pair.domain != nullptr && pair.send_completions != nullptr &&
                     pair.receive_completions != nullptr &&
                     (wanted.is_srq == 0 || pair.shared_receives != nullptr);
    return all ? 0 : EINVAL;
}

int DeviceFile::make_queue_pair(const ib_uverbs_ex_create_qp& wanted,
                                const mlx5_ib_create_qp& provider,
                                ib_uverbs_create_qp_resp& reply) {
    const auto transport = transport_of(wanted.qp_type);
    if (!transport || wanted.create_flags != 0) return EOPNOTSUPP;
    auto pair = std::make_unique<QueuePair>();
    if (const int error = find_parts(wanted, *pair); error != 0) return error;
    if (const int error = check_sizes(provider); error != 0) return error;
    pair->type = wanted.qp_type;
    pair->async_events = &async_events_;
    pair->user_handle = wanted.user_handle;
    pair->facts->max_send_wr = reply.max_send_wr = wanted.max_send_wr;
    pair->facts->max_recv_wr = reply.max_recv_wr = wanted.max_recv_wr;
    pair->facts->max_send_sge = reply.max_send_sge = wanted.max_send_sge;
    pair->facts->max_recv_sge = reply.max_recv_sge = wanted.max_recv_sge;
    pair->facts->max_inline_data = reply.max_inline_data = wanted.max_inline_data;
    pair->facts->sq_sig_all = wanted.sq_sig_all;

    softnic::QueuePairParts parts;
    parts.view = view_of(provider, pair->shared_receives == nullptr);
    parts.view.transport = *transport;
    parts.domain = pair->domain->number;
    parts.flow_request = {ask_for_flow, pair.get()};
    parts.route = way_back(identity_);
    pair->connector = &connector_;
    parts.send_completions = &pair->send_completions->engine();
    parts.receive_completions = &pair->receive_completions->engine();
    allow_data_in_entries(parts, provider.flags, wanted.sq_sig_all != 0);
    if (pair->shared_receives != nullptr) parts.shared_receives = &pair->shared_receives->list;
    if (!parked_) parts.progress = &engine_thread_.queue_pairs();
    parts.send_index = parts.receive_index = provider.uidx & 0xffffff;
    parts.follows_verbs = true;
    parts.events = {QueuePair::report, pair.get()};
    pair->engine = std::make_unique<softnic::QueuePair>(core_, std::move(parts));
    reply.qpn = pair->engine->view().number;
    QueuePair& made = *pair;
    reply.qp_handle = queue_pairs_.add(std::move(pair));
    if (reply.qp_handle == 0) return ENOMEM;
    ++made.domain->users, ++made.send_completions->users, ++made.receive_completions->users;
    if (made.shared_receives != nullptr) ++made.shared_receives->users;
    if (!parked_) {
        find_registers(provider);
        engine_thread_.start(), connector_.start();
    }
    return 0;
}

int DeviceFile::create_queue_pair(const Command& command) {
    const auto plain = command.core<ib_uverbs_create_qp>();
    ib_uverbs_ex_create_qp wanted{};
    // From user_handle to reserved the two forms are the same.
    std::memcpy(static_cast<void*>(&wanted), &plain.user_handle,
                sizeof plain - offsetof(ib_uverbs_create_qp, user_handle));
    ib_uverbs_create_qp_resp reply{};
    const int error =
        make_queue_pair(wanted, command.provider<ib_uverbs_create_qp, mlx5_ib_create_qp>(), reply);
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = next_register();
    if (error == 0) command.reply(reply, provider);
    return error;
}

int DeviceFile::create_queue_pair_extended(const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_create_qp>();
    if (wanted.comp_mask != 0) return EOPNOTSUPP;
    ib_uverbs_ex_create_qp_resp reply{};
    const int error = make_queue_pair(
        wanted, command.provider<ib_uverbs_ex_create_qp, mlx5_ib_create_qp>(), reply.base);
    reply.response_length = sizeof reply;
    mlx5_ib_create_qp_resp provider{};
    provider.bfreg_index = next_register();
    if (error == 0) command.reply(reply, provider);
    return error;
}

int DeviceFile::change(const ib_uverbs_modify_qp& change) {
    QueuePair* const pair = queue_pairs_.find(change.qp_handle);
    if (pair == nullptr) return EINVAL;
    ib_uverbs_query_qp_resp& facts = *pair->facts;
    if (pair->engine->state() == QueuePairState::error) facts.qp_state = kError;
    const std::uint8_t from = facts.qp_state;
    const std::uint32_t mask = change.attr_mask;
    // Without a new state the queue pair stays where it is, by the same rules.
    const std::uint8_t to = (mask & kState) != 0 ? change.qp_state : from;
    if (!may_follow(from, to)) return EINVAL;
    if (!parked_) {  // what nobody executes needs no attributes
        const std::uint32_t must = needed(pair->type, from, to);
        if ((mask & must) != must || (mask & ~(kState | must | allowed(pair->type, from, to))) != 0)
            return EINVAL;
    }
    if (const int error = check_values(change, from); error != 0) return error;
    keep_all(facts, change);
    if ((mask & kState) != 0 && to == kDrained && from == kReadyToSend && !parked_)
        pair->engine->pause_sending((mask & kDrainNotice) != 0 && change.en_sqd_async_notify != 0);
    if (from != to) enter(*pair, to);
    tell_engine(*pair->engine, change);
    if ((mask & (kTimeout | kRetries)) != 0)
        pair->engine->set_retries(facts.timeout == 0 ? std::chrono::nanoseconds(0) : once(facts),
                                  facts.retry_cnt);
    // Requests and messages that wait may have another end.
    engine_thread_.bell().ring();
    return 0;
}

// The engine's part of a new state.
void DeviceFile::enter(QueuePair& pair, std::uint8_t state) {
    if (parked_) return;
    softnic::QueuePair& engine = *pair.engine;
    const ib_uverbs_query_qp_resp& facts = *pair.facts;
    const QueuePairAddress peer = softnic::address_of_number(facts.dest_qp_num);
    pair.only_receives.store(state == kReadyToReceive);
    switch (state) {
        case kReset:
            connector_.remove(engine);
            return engine.reset();
        case kInit:
            return engine.initialize();
        case kReadyToReceive:
            engine.receive_from({peer.nonce, peer.number});
            if (!engine.datagrams()) connector_.add_listener(engine, peer);
            return;
        case kReadyToSend:
            engine.resume_sending();
            if (engine.datagrams()) return engine.send_datagrams();
            if (engine.state() == QueuePairState::ready_to_receive)
                connector_.add(engine, peer, patience_of(facts));
            return;
        case kError:
            connector_.remove(engine);
            return engine.fail();
        default:
            return;
    }
}

int DeviceFile::modify_queue_pair(const Command& command) {
    return change(command.core<ib_uverbs_modify_qp>());
}

int DeviceFile::modify_queue_pair_extended(const Command& command) {
    const int error = change(command.core<ib_uverbs_ex_modify_qp>().base);
    if (error == 0)
        command.reply(ib_uverbs_ex_modify_qp_resp{0, sizeof(ib_uverbs_ex_modify_qp_resp)});
    return error;
}

int DeviceFile::query_queue_pair(const Command& command) {
    QueuePair* const pair = queue_pairs_.find(command.core<ib_uverbs_query_qp>().qp_handle);
    if (pair == nullptr) return EINVAL;
    if (pair->engine->state() == QueuePairState::error) pair->facts->qp_state = kError;
    pair->facts->cur_qp_state = pair->facts->qp_state;
    pair->facts->sq_draining = pair->engine->draining() ? 1 : 0;
    command.reply(*pair->facts);
    return 0;
}

int DeviceFile::destroy_queue_pair(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_qp>().qp_handle;
    QueuePair* const pair = queue_pairs_.find(handle);
    if (pair == nullptr) return EINVAL;
    connector_.remove(*pair->engine);
    --pair->domain->users, --pair->send_completions->users, --pair->receive_completions->users;
    if (pair->shared_receives != nullptr) --pair->shared_receives->users;
    pair->engine.reset();
    const std::uint32_t events =
        async_events_.end_events(pair->user_handle, pair->async_events_sent);
    queue_pairs_.remove(handle);
    command.reply(ib_uverbs_destroy_qp_resp{events});
    return 0;
}

}  // namespace verbatim::uverbs
