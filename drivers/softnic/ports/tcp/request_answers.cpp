// What the responder has done, as results and words.
#include "request_feeder.hpp"

namespace verbatim::softnic {

bool RequestFeeder::collect(AnswerQueue& answers) noexcept {
    for (const std::uint64_t done = ring_.acknowledged(); collected_ < done; ++collected_) {
        if (collected_ == marked_) return false;
        const Mark& mark = marks_[collected_ % kMarks];
        // The peer is to give its frame again, and is told so first: words do not go amid a result.
        if (repeats_ && mark.frame_bytes != 0 && mark.number == taken_ + 1) return true;
        if (mark.bytes != 0 && !add_result(mark, answers)) return false;
        if (mark.last) acknowledged_ = mark.number;
    }
    return true;
}

bool RequestFeeder::add_result(const Mark& mark, AnswerQueue& answers) noexcept {
    if (mark.frame_bytes != 0) {
        if (answers.room() < sizeof(FrameHeader) + mark.frame_bytes) return false;
        answers.begin(FrameKind::result, mark.number, mark.frame_bytes, mark.flags);
    }
    if (mark.atomic) {
        const std::uint64_t before = ring_.atomic_result(atomics_.answered++);
        answers.add(&before, sizeof before);
        return true;
    }
    answers.add(ring_.answer(), mark.bytes);
    ring_.take_answer();
    if ((mark.flags & kAgainPart) != 0) --again_.unanswered;
    return true;
}

// The state before the answers: what was acknowledged in a state that ends everything is all.
bool RequestFeeder::answer(AnswerQueue& answers, WordsBody& words) noexcept {
    words.state = static_cast<std::uint8_t>(ring_.receiver_state());
    words.refused = static_cast<std::uint8_t>(ring_.refused());
    if (!collect(answers)) return false;
    if (stopped_ && !waits()) stopped_ = false;
    words.taken = taken_;
    words.acknowledged = acknowledged_;
    words.waits = waits() && collected_ == ring_.acknowledged() ? 1 : 0;
    words.stops = stops_;
    words.stopped = stopped_ ? 1 : 0;
    words.not_ready = ring_.not_ready();
    words.not_ready_for = static_cast<std::uint64_t>(ring_.not_ready_for().count());
    return true;
}

}  // namespace verbatim::softnic
