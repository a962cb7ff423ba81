// The questions of a link: one at a time crosses its socket, and its answer is waited for. Threads:
// any; a question takes a mutex and system calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
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

    // `object`: the link, in messages. Both belong to the link.
    LinkQuestions(const std::string& object, const Descriptor& socket) noexcept
        : object_(object), socket_(socket) {}
    LinkQuestions(const LinkQuestions&) = delete;
    LinkQuestions& operator=(const LinkQuestions&) = delete;

    // Throws Error: what the peer says in a refusal, timeout, protocol_error, version_mismatch,
    // peer_lost.
    Answer ask(LinkMessage message, LinkOp expected, Instant deadline);
    // Nothing can be asked any more.
    bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    void mark_lost() noexcept { lost_.store(true, std::memory_order_release); }

  private:
    class Turn;
    void lose() noexcept;
    Answer wait_answer(std::uint64_t sequence, LinkOp expected, Instant deadline);

    const std::string& object_;
    const Descriptor& socket_;
    // The thread with the turn owns the socket and sequence_. Not a timed mutex: thread sanitizers
    // do not understand that one.
    std::mutex mutex_;  // guards asking_
    std::condition_variable turn_ended_;
    bool asking_ = false;
    std::uint64_t sequence_ = 0;
    std::atomic<bool> lost_{false};
};

}  // namespace verbatim::softnic
