// The responder's words as the requester reads them, and the end of the stream. One writer, the
// thread inside the stream's gate; readers any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "../../rings/channel.hpp"
#include "frame.hpp"

namespace verbatim::softnic {

class PeerWords {
  public:
    std::uint64_t acknowledged() const noexcept {
        return acknowledged_.load(std::memory_order_acquire);
    }
    std::uint32_t refused() const noexcept { return refused_.load(std::memory_order_acquire); }
    std::uint64_t not_ready() const noexcept { return not_ready_.load(std::memory_order_relaxed); }
    std::chrono::nanoseconds not_ready_for() const noexcept {
        return std::chrono::nanoseconds(not_ready_for_.load(std::memory_order_relaxed));
    }
    // How often the peer said so of that message; 0: it says so once.
    std::uint32_t tries() const noexcept { return tries_.load(std::memory_order_relaxed); }
    // The message after those acknowledged found no receive.
    bool waits() const noexcept {
        const std::uint64_t after = waits_.load(std::memory_order_acquire);
        return after != 0 && after == acknowledged() + 1;
    }
    bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
    ReceiverState state() const noexcept { return state_.load(std::memory_order_acquire); }
    // The peer's process, or its queue pair, is not there any more.
    bool gone() const noexcept { return lost() || state() == ReceiverState::closed; }
    // Nothing that is sent now is answered; what was acknowledged before stays so.
    bool silent() const noexcept { return lost() || state() != ReceiverState::open; }

    // The writer. False: they contradict those before.
    bool store(const WordsBody& words) noexcept {
        const std::uint64_t before = acknowledged_.load(std::memory_order_relaxed);
        if (words.acknowledged < before) return false;
        acknowledged_.store(words.acknowledged, std::memory_order_release);
        not_ready_.store(words.not_ready, std::memory_order_relaxed);
        not_ready_for_.store(static_cast<std::int64_t>(words.not_ready_for),
                             std::memory_order_relaxed);
        waits_.store(words.waits != 0 ? words.acknowledged + 1 : 0, std::memory_order_release);
        refused_.store(std::uint32_t{words.refused}, std::memory_order_release);
        state_.store(static_cast<ReceiverState>(words.state), std::memory_order_release);
        return true;
    }
    // Before the words that say so.
    void count_tries(std::uint32_t tries) noexcept {
        tries_.store(tries, std::memory_order_relaxed);
    }
    void lose() noexcept { lost_.store(true, std::memory_order_release); }

  private:
    std::atomic<std::uint64_t> acknowledged_{0}, not_ready_{0}, waits_{0};
    std::atomic<std::int64_t> not_ready_for_{0};
    std::atomic<std::uint32_t> refused_{0}, tries_{0};
    std::atomic<ReceiverState> state_{ReceiverState::open};
    std::atomic<bool> lost_{false};
};

}  // namespace verbatim::softnic
