// A stream carries the requests of two connected queue pairs, and their answers, over one TCP
// socket. States, owners and threads: docs/tcp-port.md. One thread at a time is inside its gate and
// reads, feeds the responder's ring and sends; others leave a mark and go on. No member blocks,
// allocates or throws, but the constructor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../../../softqueue/failure_text.hpp"
#include "../../../softqueue/gate.hpp"
#include "../../host/descriptor.hpp"
#include "answer_queue.hpp"
#include "peer_words.hpp"
#include "read_results.hpp"
#include "request_feeder.hpp"
#include "request_frames.hpp"
#include "stream_input.hpp"

namespace verbatim::softnic {

class Stream {
  public:
    // Without a socket yet. `ring`: the queue pair's own; `questions`: reads and atomic operations
    // that the peer answers at once. Throws std::bad_alloc.
    Stream(ChannelSender ring, std::size_t questions, FailureText& failure);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    // Control path, once: the socket to the peer, which was dialled and is to welcome this side, or
    // was accepted.
    enum class Origin : std::uint8_t { dialled, accepted };
    void attach(Descriptor socket, Origin origin) noexcept;
    bool attached() const noexcept { return marks_.attached.load(std::memory_order_acquire); }
    int socket() const noexcept { return socket_.get(); }  // once it is attached
    // No stream came in time.
    void expire() noexcept;
    // The requester's, inside the send gate.
    RequestFrames& requests() noexcept { return requests_; }
    ReadResults& results() noexcept { return results_; }
    void give_up() noexcept { marks_.gives_up.store(true, std::memory_order_release); }
    // Any thread.
    const PeerWords& words() const noexcept { return words_; }

    // Receives what has come, and sends. True: something came, or waits for the responder to run.
    // Any thread.
    bool progress() noexcept;
    // Sends what was committed, and the responder's words. Any thread.
    void flush() noexcept;
    // Bytes that the socket did not take, or frames that the responder's ring did not take. Any
    // thread.
    bool unfinished() const noexcept { return marks_.unfinished.load(std::memory_order_relaxed); }
    // Nobody looks again before the socket is ready: what is to be said is said at once. The thread
    // that sets it flushes afterwards. Any thread.
    std::atomic<bool>& armed() noexcept { return marks_.armed; }
    // A message of the peer waits for a receive. Any thread.
    bool waits() const noexcept { return marks_.waits.load(std::memory_order_relaxed); }

  private:
    bool turn() noexcept;
    bool receive() noexcept;
    bool greeted() noexcept;
    bool take_frames() noexcept;
    RequestFeeder::Fed take(const Frame& frame) noexcept;
    bool follow(const WordsBody& words) noexcept;
    void answer(bool now) noexcept;
    void send_out() noexcept;
    bool send_some() noexcept;
    void break_protocol(FrameState state, const FrameHeader& header) noexcept;

    Descriptor socket_;
    const std::uint64_t generation_;
    FailureText& failure_;
    Gate gate_;
    StreamInput input_;
    RequestFeeder feeder_;
    AnswerQueue answers_;
    RequestFrames requests_;
    ReadResults results_;
    PeerWords words_;
    WordsBody told_;              // the last words that were sent
    std::uint32_t repeated_ = 0;  // of the peer's stops
    bool greeted_ = false;        // the peer's welcome has come, or is not to
    bool blocked_ = false;        // a frame waits for the responder
    struct {
        std::atomic<bool> attached{false}, gives_up{false}, unfinished{false}, waits{false};
        std::atomic<bool> armed{false};
    } marks_;  // for any thread
};

}  // namespace verbatim::softnic
