// A stream carries the requests of two connected queue pairs, and their answers, over one TCP
// socket. States, owners and threads: docs/tcp-port.md. The thread inside its gate reads, feeds the
// responder's ring and sends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../../../softqueue/failure_text.hpp"
#include "../../../softqueue/gate.hpp"
#include "../../host/descriptor.hpp"
#include "answer_queue.hpp"
#include "read_results.hpp"
#include "request_feeder.hpp"
#include "request_frames.hpp"
#include "stream_input.hpp"
#include "wire.hpp"

namespace verbatim::softnic {

class Stream final : public Wire {
  public:
    // Without a socket yet. `ring`: the queue pair's own; `questions`: reads and atomic operations
    // that the peer answers at once. Throws std::bad_alloc.
    Stream(ChannelSender ring, std::size_t questions, FailureText& failure);
    ~Stream() override;

    void attach(Descriptor socket, Origin origin) noexcept override;
    int socket() const noexcept override { return socket_.get(); }
    void expire() noexcept override;
    // The requester's, inside the send gate.
    RequestFrames& requests() noexcept { return requests_; }
    ReadResults& results() noexcept { return results_; }

    Found progress() noexcept override;
    bool occupied() const noexcept override { return gate_.occupied(); }
    void flush() noexcept override;

  private:
    Found turn() noexcept;
    Found receive() noexcept;
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
    WordsBody told_;              // the last words that were sent
    std::uint32_t repeated_ = 0;  // of the peer's stops
    std::uint32_t looks_ = 0;     // in a row that found nothing
    bool greeted_ = false;        // the peer's welcome has come, or is not to
    bool blocked_ = false;        // a frame waits for the responder
};

}  // namespace verbatim::softnic
