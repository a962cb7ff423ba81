// When packets are written.
#include "captured_port.hpp"

#include <verbatim/mlx5/encode.hpp>

namespace verbatim::softnic {

PortAnswer CapturedPort::post(const PortRequest& request, const PieceList& bytes) noexcept {
    const PortAnswer answer = port_.post(request, bytes);
    if (answer.outcome == PortOutcome::waits) return answer;  // it comes again
    const Fetch fetch{requests_.add(request, bytes), request.atomic != nullptr};
    const bool fetches = fetch.atomic || request.opcode == mlx5::Opcode::read;
    if (answer.outcome == PortOutcome::refused) {
        requests_.refuse(fetch.numbers.first, answer.syndrome);
    } else if (answer.outcome == PortOutcome::done) {
        if (fetches)
            respond(fetch, bytes);
        else if (request.awaited)
            requests_.acknowledge(fetch.numbers.last);
    } else if (fetches) {
        fetches_[asked_++ % kMostFetches] = fetch;
    } else if (request.awaited) {
        awaited_ = answer.ticket;
        awaited_number_ = fetch.numbers.last;
    }
    return answer;
}

bool CapturedPort::take_result(const PieceList& into) noexcept {
    if (!port_.take_result(into)) return false;
    if (asked_ - answered_ <= kMostFetches) respond(fetches_[answered_ % kMostFetches], into);
    ++answered_;
    return true;
}

void CapturedPort::respond(const Fetch& fetch, const PieceList& bytes) noexcept {
    if (fetch.atomic)
        requests_.respond(fetch.numbers.first, bytes);
    else
        requests_.respond(fetch.numbers, bytes);
}

void CapturedPort::look_at_acknowledged() noexcept {
    if (awaited_ == 0 || port_.acknowledged() < awaited_) return;
    awaited_ = 0;
    requests_.acknowledge(awaited_number_);
}

}  // namespace verbatim::softnic
