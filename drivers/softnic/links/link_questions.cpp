// Sending questions, and waiting for their answers.
#include "link_questions.hpp"

#include <sys/socket.h>

#include <cerrno>

#include <fmt/format.h>

namespace verbatim::softnic {

class LinkQuestions::Turn {
  public:
    Turn(LinkQuestions& questions, Instant deadline) : questions_(questions) {
        std::unique_lock lock(questions.mutex_);
        if (!questions.turn_ended_.wait_until(lock, deadline, [&] { return !questions.asking_; }))
            throw Error(Errc::timeout, questions.object_, "the peer does not answer",
                        "is it stopped?");
        questions.asking_ = true;
    }
    ~Turn() {
        const std::lock_guard lock(questions_.mutex_);
        questions_.asking_ = false;
        questions_.turn_ended_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

  private:
    LinkQuestions& questions_;
};

// The control thread, which sees the end of the socket, tells those who use the link.
void LinkQuestions::lose() noexcept {
    mark_lost();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

LinkQuestions::Answer LinkQuestions::ask(LinkMessage message, LinkOp expected, Instant deadline) {
    const Turn turn(*this, deadline);
    message.sequence = ++sequence_;
    // A peer that closed the link may have said why; that can be read still.
    if (!lost() && (send_message(socket_.get(), message) || errno == EPIPE || errno == ECONNRESET))
        return wait_answer(message.sequence, expected, deadline);
    lose();
    throw Error(Errc::peer_lost, object_, "the peer closed the link");
}

LinkQuestions::Answer LinkQuestions::wait_answer(std::uint64_t sequence, LinkOp expected,
                                                 Instant deadline) {
    Answer answer;
    for (;;) {
        if (!wait_readable(socket_.get(), deadline))
            throw Error(Errc::timeout, object_, "the peer does not answer", "is it stopped?");
        answer.files.clear();
        const Received got = receive_message(socket_.get(), answer.message, answer.files);
        if (got == Received::nothing) continue;
        if (got == Received::other_version)
            throw Error(
                Errc::version_mismatch, object_,
                fmt::format("the peer speaks version {} of the link protocol, this process {}",
                            answer.message.version, kLinkVersion),
                "use the same version of verbatim on both sides");
        if (got == Received::closed) {
            lose();
            throw Error(Errc::peer_lost, object_, "the peer closed the link");
        }
        if (got == Received::malformed)
            throw Error(Errc::protocol_error, object_, "the peer sent a malformed answer");
        // An older sequence is the late answer to a request that ran into its deadline.
        if (answer.message.sequence == sequence) break;
    }
    if (answer.message.op == LinkOp::refusal)
        throw Error(static_cast<Errc>(answer.message.status), object_, answer.message.sentence());
    if (answer.message.op != expected)
        throw Error(Errc::protocol_error, object_, "the peer answered another question");
    return answer;
}

}  // namespace verbatim::softnic
