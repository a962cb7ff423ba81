// The producer of the ring that a queue pair's responder reads: turns a peer's request frames into
// records, and the responder's words and answers into frames. What the ring has no room for while a
// message waits for a receive is discarded, and sent again later; so the stream is always read.
// Owner: the stream. Threads: the one inside its gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../rings/channel.hpp"
#include "answer_queue.hpp"
#include "frame.hpp"

namespace verbatim::softnic {

class RequestFeeder {
  public:
    // `ring`: the queue pair's own, by which its peer's requests come.
    explicit RequestFeeder(ChannelSender ring) noexcept;

    // Later: the responder must run first, and the frame is given again. Malformed: the peer breaks
    // the protocol. Dropped: the caller's word for a frame that is done and was not taken.
    enum class Fed : std::uint8_t { done, later, malformed, dropped };
    Fed feed(const Frame& frame) noexcept;
    // A read that was answered before, and is answered once more: its number counts no further.
    // Dropped: not now. Later: as above.
    Fed feed_again(const Frame& read) noexcept;
    // Results of such reads are still to come. The responder is not held up before them.
    bool reads_again() const noexcept { return again_.unanswered != 0 && ring_.receiver_is_open(); }
    // The ring has a part of the next frame.
    bool has_part() const noexcept { return fed_ != 0; }
    void give_up() noexcept { ring_.give_up(); }
    // The frames up to this number are in the ring, or at their end.
    std::uint64_t taken() const noexcept { return taken_; }
    // All that the responder is to acknowledge of them it has acknowledged.
    bool all_acknowledged() const noexcept { return collected_ == marked_; }

    // What the responder has done becomes results, and its words. False: the peer asked for more
    // than may be on its way, or this side's ring is broken.
    bool answer(AnswerQueue& answers, WordsBody& words) noexcept;
    // A message waits for a receive that the program has not posted.
    bool waits() noexcept;

  private:
    // One message of the ring that the responder acknowledges, of them all in their order.
    struct Mark {
        std::uint64_t number = 0;       // of its frame
        std::uint32_t bytes = 0;        // of a piece that was asked for, else 0
        std::uint32_t frame_bytes = 0;  // of the result's frame that begins with it, else 0
        std::uint8_t flags = 0;         // likewise: of the frame that asked
        bool atomic = false;
        bool last = false;  // of its frame
    };
    static constexpr std::size_t kMarks = 1024;
    // Reads that are answered once more.
    struct Again {
        std::uint64_t fed = 0;         // bytes of the one at hand that are in the ring
        std::uint64_t unanswered = 0;  // pieces
    };
    // Messages in the ring. One may wait for a receive.
    struct Messages {
        std::uint64_t marked = 0;                    // marks up to that of the newest
        bool inside = false;                         // one was begun and has not ended
        std::uint64_t waits_seen = 0, waits_at = 0;  // the ring's waits, what was consumed then
    };

    struct Atomics {
        std::uint64_t put = 0, answered = 0;
    };

    bool goes_on_with(const Frame& frame) const noexcept;
    bool put(const Frame& frame) noexcept;
    bool put_send(const Frame& frame) noexcept;
    bool put_write(const Frame& frame) noexcept;
    std::size_t put_piece(const WriteBody& to, std::span<const std::byte> left) noexcept;
    bool put_notice(const Frame& frame, const MessageBody& body) noexcept;
    bool put_read(const Frame& frame, std::uint64_t& fed) noexcept;
    bool may_wait() noexcept;
    bool put_atomic(const Frame& frame) noexcept;
    bool may_mark() const noexcept { return marked_ - collected_ != kMarks; }
    void mark(const Mark& mark) noexcept { marks_[marked_++ % kMarks] = mark; }
    void mark_message(std::uint64_t number) noexcept {
        mark({.number = number, .last = true});
        messages_.marked = marked_;
    }
    bool collect(AnswerQueue& answers) noexcept;
    bool add_result(const Mark& mark, AnswerQueue& answers) noexcept;

    ChannelSender ring_;
    std::uint64_t taken_ = 0, acknowledged_ = 0;
    std::uint64_t fed_ = 0;  // bytes of the next frame that are in the ring
    FrameKind fed_kind_{};   // what that frame was
    bool begun_ = false;     // a record of it is
    bool repeats_ = false;   // what comes is discarded until that frame comes again
    bool stopped_ = false;   // and the peer is not to send it yet
    std::uint32_t stops_ = 0;
    Again again_;
    Messages messages_;
    std::uint64_t marked_ = 0, collected_ = 0;
    Atomics atomics_;
    std::array<Mark, kMarks> marks_;
};

}  // namespace verbatim::softnic
