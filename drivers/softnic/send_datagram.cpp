// Sends of datagram queue pairs: each says where it goes, and whether it arrives nobody learns.
#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"
#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// What takes as long is dropped meanwhile.
constexpr std::chrono::seconds kNoWayFor{1};

}  // namespace

// Null: the message is dropped, or waits.
Flow* SendEngine::flow_to(std::uint32_t number, Verdict& verdict) noexcept try {
    const auto [found, fresh] = shared_->flows.try_emplace(number);
    Flow& flow = found->second;
    verdict = Verdict::waits;
    if (!fresh && flow.way == Flow::Way::none) {
        verdict = Verdict::done;
        if (std::chrono::steady_clock::now() < flow.again) return nullptr;
        flow = {};
        shared_->flow_request.call(shared_->flow_request.context, number);
        return nullptr;
    }
    if (fresh) shared_->flow_request.call(shared_->flow_request.context, number);
    if (flow.way == Flow::Way::asked_for) return nullptr;
    if (!flow.silent()) return &flow;
    // It has gone. Another one may have its number by the next message.
    shared_->flows.erase(found);
    verdict = Verdict::done;
    return nullptr;
} catch (const std::bad_alloc&) {
    verdict = Verdict::done;
    return nullptr;
}

SendEngine::Verdict SendEngine::send_datagram(Request& request) noexcept {
    constexpr std::size_t kFirstData =
        (sizeof(mlx5::ControlSegment) + sizeof(mlx5::DatagramSegment)) / mlx5::kUnitBytes;
    const auto opcode = static_cast<Opcode>(request.result.opcode);
    if (opcode == Opcode::nop) return Verdict::done;
    if ((opcode != Opcode::send && opcode != Opcode::send_immediate) ||
        mlx5::units_of(request.control) < kFirstData) {
        shared_->failure.set("opcode {:#x} is none of a datagram queue pair",
                             request.result.opcode);
        return fail(request, Syndrome::local_queue_pair);
    }
    PieceList list;
    const Syndrome syndrome = collect(request, kFirstData, Access::local_read, list);
    if (syndrome != kNoSyndrome) return fail(request, syndrome);
    if (list.total > kMaxDatagramBytes) {
        shared_->failure.set("a datagram of {} bytes; at most {} are possible", list.total,
                             kMaxDatagramBytes);
        return fail(request, Syndrome::local_length);
    }
    request.sent = list.total;
    const auto address = request.wqe.read<mlx5::DatagramSegment>(1);
    Verdict verdict = Verdict::done;
    Flow* const flow = flow_to(address.extended_number.native() & 0xffffff, verdict);
    if (flow == nullptr) return verdict;
    std::byte* to = flow->ring.reserve_whole(list.total);
    if (to == nullptr) return flow->ring.broken() ? Verdict::done : Verdict::waits;
    for_each_part(list, 0, list.total, [&](const std::byte* from, std::size_t bytes) {
        copy_bytes(to, from, bytes);
        to += bytes;
    });
    // A key with the highest bit set stands for the queue pair's own.
    constexpr std::uint32_t kOwnKey = std::uint32_t{1} << 31;
    const std::uint32_t key = address.queue_key.native();
    RecordHeader record;
    record.bytes = static_cast<std::uint32_t>(list.total);
    record.flags =
        kFirstRecord | kLastRecord | (opcode == Opcode::send_immediate ? kHasImmediate : 0) |
        ((request.control.fence_completion_event & mlx5::kSolicited) != 0 ? kSolicitedRecord : 0);
    record.total = (key & kOwnKey) != 0 ? shared_->queue_key.load() : key;
    record.immediate = request.control.immediate.raw();
    flow->ring.commit(record);
    flow->ring.signal();
    flow->link->ring_bell();
    return Verdict::done;
}

void SendEngine::add_flow(std::uint32_t number, std::shared_ptr<Link> link,
                          ChannelSender ring) noexcept {
    const auto found = shared_->flows.find(number);
    if (found == shared_->flows.end()) return;
    found->second.way = Flow::Way::open;
    found->second.link = std::move(link);
    found->second.ring = std::move(ring);
}

void SendEngine::refuse_flow(std::uint32_t number) noexcept {
    const auto found = shared_->flows.find(number);
    if (found == shared_->flows.end()) return;
    found->second.way = Flow::Way::none;
    found->second.again = std::chrono::steady_clock::now() + kNoWayFor;
}

}  // namespace verbatim::softnic
