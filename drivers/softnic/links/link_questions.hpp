// The questions of a link: one at a time crosses its socket, and its answer is waited for; or many
// do, whose answers are fetched later. Threads: any; a question takes a mutex and system calls.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"

namespace verbatim::softnic {

class LinkQuestions {
  public:
    struct Answer {
        LinkMessage message;
        std::vector<Descriptor> files;
    };
    // How long the thread that asks waits in place, and when a question counts as unanswered.
    struct Times {
        std::chrono::milliseconds in_place, in_all;
    };

    // `object`: the link, in messages. Both belong to the link.
    LinkQuestions(const std::string& object, const Descriptor& socket) noexcept
        : object_(object), socket_(socket) {}
    LinkQuestions(const LinkQuestions&) = delete;
    LinkQuestions& operator=(const LinkQuestions&) = delete;

    // Throws Error: what the peer says in a refusal, timeout, protocol_error, version_mismatch,
    // peer_lost.
    Answer ask(LinkMessage message, LinkOp expected, Instant deadline);
    // The same of a thread that must not wait for a stopped peer. Nothing: no answer yet; the same
    // question again later.
    std::optional<Answer> ask_or_return(const LinkMessage& message, LinkOp expected,
                                        const Times& times);
    // Nothing can be asked any more.
    bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    void mark_lost() noexcept { lost_.store(true, std::memory_order_release); }

  private:
    class Turn;
    // A question whose answer may come while its asker does other things.
    struct Open {
        LinkMessage message;
        Instant deadline;
        std::optional<Answer> answer;
    };
    bool take_turn(Instant deadline);
    void send(LinkMessage& message);
    void lose() noexcept;
    [[noreturn]] void fail_timeout() const;
    bool receive(Answer& answer, Instant deadline);
    Answer wait_answer(std::uint64_t sequence, Instant deadline);
    Answer checked(Answer answer, LinkOp expected) const;
    std::size_t opened(const LinkMessage& message, const Times& times, Instant now, Instant& until);
    void keep(Answer answer);

    const std::string& object_;
    const Descriptor& socket_;
    // The thread with the turn owns the socket, sequence_ and open_. Not a timed mutex: thread
    // sanitizers do not understand that one.
    std::mutex mutex_;  // guards asking_
    std::condition_variable turn_ended_;
    bool asking_ = false;
    std::uint64_t sequence_ = 0;
    std::vector<Open> open_;
    std::atomic<bool> lost_{false};
};

}  // namespace verbatim::softnic
