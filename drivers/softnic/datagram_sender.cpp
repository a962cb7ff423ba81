// Ways of datagrams, and the records they become.
#include "datagram_sender.hpp"

#include <chrono>
#include <new>

#include <verbatim/mlx5/work_request.hpp>

#include "shared_store.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// What takes as long is dropped meanwhile.
constexpr std::chrono::seconds kNoWayFor{1};

}  // namespace

// Null: the message is dropped, or waits.
Flow* DatagramSender::flow_to(std::uint32_t number, PortOutcome& outcome) noexcept try {
    const auto [found, fresh] = shared_->flows.try_emplace(number);
    Flow& flow = found->second;
    outcome = PortOutcome::waits;
    if (!fresh && flow.way == Flow::Way::none) {
        outcome = PortOutcome::done;
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
    outcome = PortOutcome::done;
    return nullptr;
} catch (const std::bad_alloc&) {
    outcome = PortOutcome::done;
    return nullptr;
}

bool DatagramSender::knows(const SendRequest& request) noexcept {
    const Opcode opcode = request.opcode();
    if (opcode == Opcode::nop) return true;
    if ((opcode == Opcode::send || opcode == Opcode::send_immediate) &&
        request.units() >= kFirstData)
        return true;
    shared_->failure.set("opcode {:#x} is none of a datagram queue pair", request.result.opcode);
    return false;
}

PortAnswer DatagramSender::send(const SendRequest& request, const PieceList& bytes) noexcept {
    if (bytes.total > kMaxDatagramBytes) {
        shared_->failure.set("a datagram of {} bytes; at most {} are possible", bytes.total,
                             kMaxDatagramBytes);
        return refusal(Syndrome::local_length);
    }
    const auto address = request.wqe.read<mlx5::DatagramSegment>(1);
    PortAnswer answer;
    Flow* const flow = flow_to(address.extended_number.native() & 0xffffff, answer.outcome);
    if (flow == nullptr) return answer;
    std::byte* to = flow->ring.reserve_whole(bytes.total);
    if (to == nullptr) {
        answer.outcome = flow->ring.broken() ? PortOutcome::done : PortOutcome::waits;
        return answer;
    }
    for_each_part(bytes, 0, bytes.total, [&](const std::byte* from, std::size_t part) {
        copy_bytes(to, from, part);
        to += part;
    });
    // A key with the highest bit set stands for the queue pair's own.
    constexpr std::uint32_t kOwnKey = std::uint32_t{1} << 31;
    const std::uint32_t key = address.queue_key.native();
    RecordHeader record;
    record.bytes = static_cast<std::uint32_t>(bytes.total);
    record.flags = kFirstRecord | kLastRecord |
                   (request.opcode() == Opcode::send_immediate ? kHasImmediate : 0) |
                   (request.solicited() ? kSolicitedRecord : 0);
    record.total = (key & kOwnKey) != 0 ? shared_->queue_key.load() : key;
    record.immediate = request.control.immediate.raw();
    flow->ring.commit(record);
    flow->link->ring_bell();
    return {};
}

void DatagramSender::add_flow(std::uint32_t number, std::shared_ptr<Link> link,
                              ChannelSender ring) noexcept {
    const auto found = shared_->flows.find(number);
    if (found == shared_->flows.end()) return;
    found->second.way = Flow::Way::open;
    found->second.link = std::move(link);
    found->second.ring = std::move(ring);
}

void DatagramSender::refuse_flow(std::uint32_t number) noexcept {
    const auto found = shared_->flows.find(number);
    if (found == shared_->flows.end()) return;
    found->second.way = Flow::Way::none;
    found->second.again = std::chrono::steady_clock::now() + kNoWayFor;
}

}  // namespace verbatim::softnic
