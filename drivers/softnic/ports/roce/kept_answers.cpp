// Keeping, finding and sending of responses.
#include "kept_answers.hpp"

#include <algorithm>

namespace verbatim::softnic {

void KeptAnswers::begin(std::uint64_t number, PacketOpcode opcode, std::size_t bytes) noexcept {
    while (first_ != end_ &&
           (end_ - first_ == kAnswersKept || written_ + bytes - answer(first_).at > kBytes))
        ++first_;
    next_ = std::max(next_, first_);
    list_[end_++ % kAnswersKept] = {number, written_, static_cast<std::uint32_t>(bytes), opcode};
}

bool KeptAnswers::lacks(std::uint64_t number) const noexcept {
    using enum PacketOpcode;
    std::uint64_t at = end_;
    while (at != first_ && answer(at - 1).number > number) --at;
    if (at == first_) return at != end_;
    const Answer& nearest = answer(at - 1);
    if (nearest.number != number) return at != end_;
    return nearest.opcode == response_middle || nearest.opcode == response_last;
}

void KeptAnswers::repeat(std::uint64_t number) noexcept {
    std::uint64_t from = next_;
    while (from != first_ && answer(from - 1).number >= number) --from;
    next_ = from;
}

std::uint64_t KeptAnswers::send(PacketOutput& output, const SequenceSpace& space) noexcept {
    std::uint64_t last = 0;
    for (; next_ != end_; ++next_) {
        const Answer& next = answer(next_);
        Gathered body;
        body.add(ring_, next.at, next.bytes);
        output.add({next.opcode, false, false, space.sequence_of(next.number)}, body);
        last = next.number;
    }
    return last;
}

}  // namespace verbatim::softnic
