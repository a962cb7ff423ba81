// Send queue entries become operations.
#include "request_executor.hpp"

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "atomic_request.hpp"

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

constexpr std::uint32_t kQueueNumber = 0xffffff;

}  // namespace

PortAnswer RequestExecutor::execute(SendRequest& request) noexcept {
    if (shared_->traits.datagrams()) return execute_datagram(request);
    const Opcode opcode = request.opcode();
    if (mlx5::is_send(opcode) || mlx5::is_write(opcode) || opcode == Opcode::read ||
        mlx5::is_atomic(opcode))
        return execute_at_peer(request);
    if (opcode == Opcode::nop) return {};
    // A binding travels as local invalidation, and never by its own name.
    if (opcode == Opcode::local_invalidate) return windows_.execute(request);
    shared_->failure.text.set("opcode {:#x} is not supported by the software NIC",
                              request.result.opcode);
    return refusal(Syndrome::local_queue_pair);
}

PortAnswer RequestExecutor::execute_at_peer(SendRequest& request) noexcept {
    const Opcode opcode = request.opcode();
    PortRequest wanted;
    wanted.opcode = opcode;
    wanted.solicited = request.solicited();
    wanted.awaited = request.result.signaled;
    wanted.immediate = request.control.immediate.raw();
    if (first_unit_ == kXrcUnits && request.units() < kXrcUnits) {
        shared_->failure.text.set(
            "a request of an XRC queue pair that names no shared receive queue");
        return refusal(Syndrome::local_queue_pair);
    }
    if (first_unit_ == kXrcUnits)
        wanted.queue =
            request.wqe.read<mlx5::XrcSegment>(1).shared_receive_queue.native() & kQueueNumber;
    if (mlx5::is_atomic(opcode)) return execute_atomic(request, wanted);
    std::size_t data = first_unit_;
    if (!mlx5::is_send(opcode)) {
        const auto target = request.wqe.read<mlx5::RemoteAddressSegment>(data++);
        wanted.key = target.key.native();
        wanted.address = target.address.native();
    }
    const bool fetches = opcode == Opcode::read;
    const MemoryTouch inside(elements_->access());
    PieceList list;
    const Syndrome syndrome =
        elements_->collect(request, data, fetches ? Access::local_write : Access::local_read, list);
    if (syndrome != kNoSyndrome) return refusal(syndrome);
    if (!fetches) {
        request.sent = list.total;
        faults_->damage(list);
        return port_->post(wanted, list);
    }
    request.result.bytes = static_cast<std::uint32_t>(list.total);
    return fetch(request, wanted, data, list);
}

PortAnswer RequestExecutor::execute_atomic(SendRequest& request, PortRequest& wanted) noexcept {
    const AtomicRequest atomic = read_atomic(request, first_unit_);
    const std::uint32_t bytes = atomic.operation.bytes;
    if (bytes == 0) {
        shared_->failure.text.set("an atomic operation with opcode modifier {:#x}",
                                  mlx5::modifier_of(request.control));
        return refusal(Syndrome::local_queue_pair);
    }
    const MemoryTouch inside(elements_->access());
    PieceList list;
    const Syndrome syndrome =
        elements_->collect(request, atomic.result_unit, Access::local_write, list);
    if (syndrome != kNoSyndrome) return refusal(syndrome);
    if (list.total != bytes) {
        shared_->failure.text.set("an atomic operation returns {} bytes, its elements have {}",
                                  bytes, list.total);
        return refusal(Syndrome::local_length);
    }
    wanted.atomic = &atomic.operation;
    request.result.bytes = bytes;
    return fetch(request, wanted, atomic.result_unit, list);
}

// What comes back goes to `list`, which the elements from `first_unit` on make.
PortAnswer RequestExecutor::fetch(SendRequest& request, const PortRequest& wanted,
                                  std::size_t first_unit, PieceList& list) noexcept {
    if (list.total != 0) order_->keep_for_entry(request, first_unit, list);
    request.result.result_unit = static_cast<std::uint8_t>(first_unit);
    return port_->post(wanted, list);
}

PortAnswer RequestExecutor::execute_datagram(SendRequest& request) noexcept {
    if (!datagrams_.knows(request)) return refusal(Syndrome::local_queue_pair);
    if (request.opcode() == Opcode::nop) return {};
    const MemoryTouch inside(elements_->access());
    PieceList list;
    const Syndrome syndrome =
        elements_->collect(request, DatagramSender::kFirstData, Access::local_read, list);
    if (syndrome != kNoSyndrome) return refusal(syndrome);
    request.sent = list.total;
    faults_->damage(list);
    return datagrams_.send(request, list);
}

bool RequestExecutor::names_local(const SendRequest& request, const void* address) noexcept {
    const std::size_t data = shared_->traits.datagrams()       ? DatagramSender::kFirstData
                             : mlx5::is_send(request.opcode()) ? first_unit_
                                                               : first_unit_ + 1u;
    return elements_->name(request, data, address);
}

}  // namespace verbatim::softnic
