// Ways of datagrams, and the records they become.
#include "datagram_sender.hpp"

#include <new>
#include <utility>

#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

constexpr std::uint32_t kNumberMask = 0xffffff;

// It names an address that packets reach.
bool has_place(const mlx5::DatagramSegment& address) noexcept {
    return (address.extended_number.native() & mlx5::kExtendedAddress) != 0 &&
           DatagramWire::carries(address.gid);
}

}  // namespace

// Null: the message is dropped.
Flow* DatagramSender::flow_to(std::uint32_t number) noexcept try {
    Flow& flow = flows_[number];
    if (flow.must_ask()) [[unlikely]] {
        flow.ask();
        shared_->traits.flow_request.call(shared_->traits.flow_request.context, number);
    }
    return &flow;
} catch (const std::bad_alloc&) {
    return nullptr;
}

bool DatagramSender::knows(const SendRequest& request) noexcept {
    const Opcode opcode = request.opcode();
    if (opcode == Opcode::nop) return true;
    if ((opcode == Opcode::send || opcode == Opcode::send_immediate) &&
        request.units() >= kFirstData)
        return true;
    shared_->failure.text.set("opcode {:#x} is none of a datagram queue pair",
                              request.result.opcode);
    return false;
}

// A key with the highest bit set stands for the queue pair's own.
std::uint32_t DatagramSender::key_of(const mlx5::DatagramSegment& address) const noexcept {
    constexpr std::uint32_t kOwnKey = std::uint32_t{1} << 31;
    const std::uint32_t key = address.queue_key.native();
    return (key & kOwnKey) != 0 ? shared_->limits.queue_key.load() : key;
}

PortAnswer DatagramSender::send_packet(DatagramWire& wire, const SendRequest& request,
                                       const mlx5::DatagramSegment& address,
                                       const PieceList& bytes) noexcept {
    const std::uint32_t immediate = request.control.immediate.raw();
    const bool has_immediate = request.opcode() == Opcode::send_immediate;
    const bool sent = wire.send({.address = address.gid,
                                 .queue_pair = address.extended_number.native() & kNumberMask,
                                 .queue_key = key_of(address),
                                 .immediate = has_immediate ? &immediate : nullptr,
                                 .solicited = request.solicited()},
                                bytes);
    return sent ? PortAnswer{} : kPortWaits;
}

PortAnswer DatagramSender::send(const SendRequest& request, const PieceList& bytes) noexcept {
    if (bytes.total > shared_->traits.max_datagram) {
        shared_->failure.text.set("a datagram of {} bytes; at most {} are possible", bytes.total,
                                  shared_->traits.max_datagram);
        return refusal(Syndrome::local_length);
    }
    const auto address = request.wqe.read<mlx5::DatagramSegment>(1);
    DatagramWire* const wire = shared_->wire.load(std::memory_order_acquire);
    if (wire != nullptr && has_place(address)) return send_packet(*wire, request, address, bytes);
    RecordHeader record;
    record.bytes = static_cast<std::uint32_t>(bytes.total);
    record.flags = kFirstRecord | kLastRecord |
                   (request.opcode() == Opcode::send_immediate ? kHasImmediate : 0) |
                   (request.solicited() ? kSolicitedRecord : 0);
    record.total = key_of(address);
    record.immediate = request.control.immediate.raw();
    Flow* const flow = flow_to(address.extended_number.native() & kNumberMask);
    PortAnswer answer;
    if (flow != nullptr && !flow->take(record, bytes)) answer.outcome = PortOutcome::waits;
    return answer;
}

void DatagramSender::add_flow(std::uint32_t number, std::shared_ptr<Link> link,
                              ChannelSender ring) noexcept {
    const auto found = flows_.find(number);
    if (found != flows_.end()) found->second.open(std::move(link), std::move(ring));
}

void DatagramSender::refuse_flow(std::uint32_t number, bool absent) noexcept {
    const auto found = flows_.find(number);
    if (found != flows_.end()) found->second.refuse(absent);
}

void DatagramSender::forget_flows() noexcept {
    for (auto& [number, flow] : flows_) flow.close();
    flows_.clear();
}

}  // namespace verbatim::softnic
