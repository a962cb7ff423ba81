// Requests that a fault policy may strike. What a program sees of each fault is what it would see
// of a fabric and a peer that did it.
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include <verbatim/driver/log.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "send_engine.hpp"

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

SendEngine::Verdict SendEngine::execute_or_strike(Request& request) noexcept {
    const FaultRule* const rule =
        faults_->strikes(kind_of(static_cast<Opcode>(request.result.opcode)));
    damages_ = rule != nullptr && rule->payload;
    if (rule == nullptr || damages_) return execute(request);
    switch (rule->action) {
        case FaultAction::fail:
            shared_->failure.set("a fault policy fails the request with syndrome {:#x}",
                                 static_cast<unsigned>(rule->syndrome));
            request.result.syndrome = rule->syndrome;
            return Verdict::failed;
        case FaultAction::delay:
            return faults_->waited(rule->delay) ? execute(request) : Verdict::waits;
        case FaultAction::drop:
        case FaultAction::corrupt:  // a receiver drops what its checksum does not fit
            return lose(request);
        case FaultAction::duplicate:
            return repeat(request);
        case FaultAction::kill:
            break;
    }
    log::warn("queue pair {}: a fault policy kills this process", shared_->number);
    kill(getpid(), SIGKILL);
    return Verdict::waits;
}

// Nothing of it arrives. Where that is noticed, it is sent again after a time, so many times.
SendEngine::Verdict SendEngine::lose(Request& request) noexcept {
    if (!shared_->reliable()) return Verdict::done;
    const std::chrono::nanoseconds time = shared_->retry_after.load(std::memory_order_relaxed);
    if (time.count() == 0 || !faults_->waited(time)) return Verdict::waits;
    const std::uint32_t tries = faults_->try_again();
    if (tries <= shared_->retries.load(std::memory_order_relaxed)) return Verdict::waits;
    shared_->failure.set("a fault policy lost the request {} times", tries);
    request.result.syndrome = Syndrome::retry_exceeded;
    return Verdict::failed;
}

// Connections number their packets and take each once; datagrams have no numbers.
SendEngine::Verdict SendEngine::repeat(Request& request) noexcept {
    if (!shared_->datagrams() || faults_->arrived()) return execute(request);
    const Verdict first = execute(request);
    if (first != Verdict::done) return first;
    faults_->set_arrived();
    return execute(request);
}

// The first byte of what is sent is another one: a copy of it takes its place.
void SendEngine::damage(PieceList& list) noexcept {
    if (list.total == 0) return;
    damaged_byte_ = *list.items[0].data ^ std::byte{1};
    std::copy_backward(list.items.begin(), list.items.begin() + list.count,
                       list.items.begin() + list.count + 1);
    ++list.count;
    list.items[0] = {&damaged_byte_, 1};
    ++list.items[1].data, --list.items[1].bytes;
}

}  // namespace verbatim::softnic
