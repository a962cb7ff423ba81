// Sending questions, and waiting for their answers.
#include "link_questions.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

namespace verbatim::softnic {
namespace {

// Messages that one look reads: a peer may send without end.
constexpr int kMostOfOneLook = 16;
// Of questions whose askers went away.
constexpr std::size_t kMostOpen = 64;

bool asks_the_same(const LinkMessage& a, const LinkMessage& b) noexcept {
    return a.op == b.op && a.file == b.file && a.chunk == b.chunk;
}

}  // namespace

class LinkQuestions::Turn {
  public:
    // Of the thread that has it.
    explicit Turn(LinkQuestions& questions) noexcept : questions_(questions) {}
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

bool LinkQuestions::take_turn(Instant deadline) {
    std::unique_lock lock(mutex_);
    if (!turn_ended_.wait_until(lock, deadline, [&] { return !asking_; })) return false;
    asking_ = true;
    return true;
}

void LinkQuestions::fail_timeout() const {
    throw Error(Errc::timeout, object_, "the peer does not answer", "is it stopped?");
}

// The control thread, which sees the end of the socket, tells those who use the link.
void LinkQuestions::lose() noexcept {
    mark_lost();
    ::shutdown(socket_.get(), SHUT_RDWR);
}

void LinkQuestions::send(LinkMessage& message) {
    message.sequence = ++sequence_;
    // A peer that closed the link may have said why; that can be read still.
    if (!lost() && (send_message(socket_.get(), message) || errno == EPIPE || errno == ECONNRESET))
        return;
    lose();
    throw Error(Errc::peer_lost, object_, "the peer closed the link");
}

LinkQuestions::Answer LinkQuestions::ask(LinkMessage message, LinkOp expected, Instant deadline) {
    if (!take_turn(deadline)) fail_timeout();
    const Turn turn(*this);
    send(message);
    return checked(wait_answer(message.sequence, deadline), expected);
}

std::optional<LinkQuestions::Answer> LinkQuestions::ask_or_return(const LinkMessage& message,
                                                                  LinkOp expected,
                                                                  const Times& times) {
    const Instant now = std::chrono::steady_clock::now();
    if (!take_turn(now)) return std::nullopt;
    const Turn turn(*this);
    Instant until = now;
    const std::size_t index = opened(message, times, now, until);
    Answer other;
    auto may_read = [&, left = kMostOfOneLook]() mutable {
        return !open_[index].answer && (left-- > 0 || std::chrono::steady_clock::now() < until);
    };
    while (may_read() && receive(other, until)) keep(std::move(other));
    if (!open_[index].answer && now < open_[index].deadline) return std::nullopt;
    std::optional<Answer> answer = std::move(open_[index].answer);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(index));
    if (!answer) fail_timeout();
    return checked(std::move(*answer), expected);
}

// The place of the question among the open ones. A new one is sent, and `until` is then how long
// its asker waits here.
std::size_t LinkQuestions::opened(const LinkMessage& message, const Times& times, Instant now,
                                  Instant& until) {
    const auto same = std::ranges::find_if(
        open_, [&](const Open& open) { return asks_the_same(open.message, message); });
    if (same != open_.end()) return static_cast<std::size_t>(same - open_.begin());
    if (open_.size() == kMostOpen)
        std::erase_if(open_, [&](const Open& open) { return now >= open.deadline; });
    open_.reserve(open_.size() + 1);
    LinkMessage sent = message;
    send(sent);
    open_.push_back({sent, now + times.in_all, std::nullopt});
    until = now + times.in_place;
    return open_.size() - 1;
}

void LinkQuestions::keep(Answer answer) {
    const auto asked = std::ranges::find_if(open_, [&](const Open& open) {
        return !open.answer && open.message.sequence == answer.message.sequence;
    });
    if (asked != open_.end()) asked->answer = std::move(answer);
}

// False: nothing came until then.
bool LinkQuestions::receive(Answer& answer, Instant deadline) {
    for (;;) {
        answer.files.clear();
        const Received got = receive_message(socket_.get(), answer.message, answer.files);
        if (got == Received::message) return true;
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
        if (got == Received::no_descriptors)
            throw Error(Errc::out_of_memory, object_,
                        "this process has no descriptor left for what the peer sent",
                        "raise the limit of open files (ulimit -n)");
        if (got == Received::malformed)
            throw Error(Errc::protocol_error, object_, "the peer sent a malformed answer");
        if (!wait_readable(socket_.get(), deadline)) return false;
    }
}

LinkQuestions::Answer LinkQuestions::wait_answer(std::uint64_t sequence, Instant deadline) {
    for (Answer answer; std::chrono::steady_clock::now() < deadline && receive(answer, deadline);) {
        if (answer.message.sequence == sequence) return answer;
        // That of a question whose asker does other things, or whose deadline has passed.
        keep(std::move(answer));
    }
    fail_timeout();
}

LinkQuestions::Answer LinkQuestions::checked(Answer answer, LinkOp expected) const {
    if (answer.message.op == LinkOp::refusal)
        throw Error(static_cast<Errc>(answer.message.status), object_, answer.message.sentence());
    if (answer.message.op != expected)
        throw Error(Errc::protocol_error, object_, "the peer answered another question");
    return answer;
}

}  // namespace verbatim::softnic
