// The results of reads and atomic operations on their way to a requester. What it asks for has room
// here before it is asked, so results can always be read from the socket. One asking and taking
// thread, inside the send gate; one thread that brings results, inside the stream's gate.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../keys/pieces.hpp"
#include "byte_ring.hpp"

namespace verbatim::softnic {

// Of one queue pair: frames that ask, and bytes asked for and not taken. A responder has room for
// as much; a requester that asks for more breaks the protocol.
inline constexpr std::size_t kQuestions = 16, kResultBytes = std::size_t{256} << 10;

class ReadResults {
  public:
    // `questions`: as many as the responder answers at once, at most kQuestions. Throws
    // std::bad_alloc.
    explicit ReadResults(std::size_t questions)
        : questions_(std::clamp<std::size_t>(questions, 1, kQuestions)), ring_(kResultBytes) {}

    // Control path, before anything is asked: a responder that remembers so few requests, each of
    // which has one question or more. More than that it could not answer again.
    void limit_requests(std::size_t most) noexcept {
        most_requests_ = std::clamp<std::size_t>(most, 1, kQuestions);
    }

    // The requester's side. How many bytes another frame may ask for; 0: none.
    std::size_t room() const noexcept {
        return free_questions() != 0 ? kResultBytes - (asked_bytes_ - taken_) : 0;
    }
    // How many frames may ask now.
    std::size_t free_questions() const noexcept {
        const std::uint64_t answered = answered_.load(std::memory_order_acquire);
        const std::uint64_t requests =
            requests_ - answered_requests_.load(std::memory_order_relaxed);
        if (requests >= most_requests_) return 0;
        return questions_ -
               static_cast<std::size_t>(asked_.load(std::memory_order_relaxed) - answered);
    }
    // Before that frame is committed. `last`: of its request.
    void note_question(std::uint64_t number, std::size_t bytes, bool last = true) noexcept {
        const std::uint64_t asked = asked_.load(std::memory_order_relaxed);
        list_[asked % kQuestions] = {number, bytes, last};
        asked_bytes_ += bytes;
        requests_ += last ? 1 : 0;
        asked_.store(asked + 1, std::memory_order_release);
    }
    // Bytes that have come, and were not taken; some of them into the list, from `skip` on.
    std::size_t ready() const noexcept {
        return static_cast<std::size_t>(arrived_.load(std::memory_order_acquire) - taken_);
    }
    void take(const PieceList& into, std::uint64_t skip, std::size_t bytes) noexcept {
        ring_.for_each_run(taken_, bytes, [&](const std::byte* from, std::size_t run) {
            scatter(into, skip, from, run);
            skip += run;
        });
        taken_ += bytes;
    }
    void take(std::uint64_t& word) noexcept {
        ring_.get(taken_, &word, sizeof word);
        taken_ += sizeof word;
    }

    // The stream's side. The number of the oldest question that is not answered; 0: there is none.
    std::uint64_t expected() const noexcept {
        const std::uint64_t answered = answered_.load(std::memory_order_relaxed);
        if (answered == asked_.load(std::memory_order_acquire)) return 0;
        return list_[answered % kQuestions].number;
    }
    // False: that is not what the oldest question asks for.
    bool arrive(std::uint64_t number, std::span<const std::byte> bytes) noexcept {
        const std::uint64_t answered = answered_.load(std::memory_order_relaxed);
        if (answered == asked_.load(std::memory_order_acquire)) return false;
        const Question& oldest = list_[answered % kQuestions];
        if (oldest.number != number || oldest.bytes != bytes.size()) return false;
        const std::uint64_t at = arrived_.load(std::memory_order_relaxed);
        ring_.put(at, bytes.data(), bytes.size());
        arrived_.store(at + bytes.size(), std::memory_order_release);
        if (oldest.last)
            answered_requests_.store(answered_requests_.load(std::memory_order_relaxed) + 1,
                                     std::memory_order_relaxed);
        answered_.store(answered + 1, std::memory_order_release);
        return true;
    }

  private:
    struct Question {
        std::uint64_t number = 0;
        std::size_t bytes = 0;
        bool last = true;
    };

    const std::size_t questions_;
    std::size_t most_requests_ = kQuestions;
    ByteRing ring_;
    std::array<Question, kQuestions> list_{};
    std::uint64_t asked_bytes_ = 0, taken_ = 0, requests_ = 0;  // the requester's
    std::atomic<std::uint64_t> asked_{0};
    std::atomic<std::uint64_t> answered_{0}, arrived_{0}, answered_requests_{0};  // the stream's
};

}  // namespace verbatim::softnic
