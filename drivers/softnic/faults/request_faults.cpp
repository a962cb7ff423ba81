// What becomes of a request that a rule strikes.
#include "request_faults.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <verbatim/driver/log.hpp>
#include <verbatim/mlx5/work_request.hpp>

namespace verbatim::softnic {

using mlx5::Opcode;
using mlx5::Syndrome;

namespace {

// 0: nothing that leaves the device.
std::uint8_t kind_of(Opcode opcode) noexcept {
    switch (opcode) {
        case Opcode::send:
        case Opcode::send_immediate:
        case Opcode::send_invalidate:
            return kFaultSend;
        case Opcode::write:
        case Opcode::write_immediate:
            return kFaultWrite;
        case Opcode::read:
            return kFaultRead;
        case Opcode::compare_swap:
        case Opcode::fetch_add:
        case Opcode::masked_compare_swap:
        case Opcode::masked_fetch_add:
            return kFaultAtomic;
        default:
            return 0;
    }
}

}  // namespace

// Connections number their packets and take each once; datagrams have no numbers.
RequestFaults::Fate RequestFaults::decide(const SendRequest& request, PortAnswer& answer) noexcept {
    const FaultRule* const rule = injector_->strikes(kind_of(request.opcode()));
    damages_ = rule != nullptr && rule->payload;
    if (rule == nullptr || damages_) return Fate::arrives;
    switch (rule->action) {
        case FaultAction::fail:
            shared_->failure.text.set("a fault policy fails the request with syndrome {:#x}",
                                      static_cast<unsigned>(rule->syndrome));
            answer = refusal(rule->syndrome);
            return Fate::ends;
        case FaultAction::delay:
            if (injector_->waited(rule->delay)) return Fate::arrives;
            answer = kPortWaits;
            return Fate::ends;
        case FaultAction::stall:
            answer = kPortWaits;
            return Fate::ends;
        case FaultAction::drop:
        case FaultAction::corrupt:  // a receiver drops what its checksum does not fit
            answer = lose();
            return Fate::ends;
        case FaultAction::duplicate:
            return shared_->traits.datagrams() ? Fate::arrives_twice : Fate::arrives;
        case FaultAction::disconnect:
            peer_lost_ = shared_->traits.reliable();
            answer = peer_lost_ ? refusal(Syndrome::retry_exceeded) : PortAnswer{};
            return Fate::ends;
        case FaultAction::kill:
            break;
    }
    log::warn("queue pair {}: a fault policy kills this process", shared_->traits.number);
    kill(getpid(), SIGKILL);
    answer = kPortWaits;
    return Fate::ends;
}

// Nothing of it arrives. Where that is noticed, it is sent again after a time, so many times.
PortAnswer RequestFaults::lose() noexcept {
    if (!shared_->traits.reliable()) return {};
    const std::chrono::nanoseconds time =
        shared_->limits.retry_after.load(std::memory_order_relaxed);
    if (time.count() == 0 || !injector_->waited(time)) return kPortWaits;
    const std::uint32_t tries = injector_->try_again();
    if (tries <= shared_->limits.retries.load(std::memory_order_relaxed)) return kPortWaits;
    shared_->failure.text.set("a fault policy lost the request {} times", tries);
    return refusal(Syndrome::retry_exceeded);
}

// The first byte is another one: a copy of it takes its place.
void RequestFaults::damage(PieceList& list) noexcept {
    if (!damages_ || list.total == 0) return;
    damaged_byte_ = *list.items[0].data ^ std::byte{1};
    std::copy_backward(list.items.begin(), list.items.begin() + list.count,
                       list.items.begin() + list.count + 1);
    ++list.count;
    list.items[0] = {&damaged_byte_, 1};
    ++list.items[1].data, --list.items[1].bytes;
}

}  // namespace verbatim::softnic
