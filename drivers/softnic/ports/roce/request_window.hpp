// The sending side of a requester: which packets are on their way, what the peer has answered, and
// when packets are sent again. States and timers: docs/roce-port.md. Owner: the flow. Threads: the
// one inside its gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "../tcp/peer_words.hpp"
#include "../tcp/read_results.hpp"
#include "congestion_notices.hpp"
#include "congestion_window.hpp"
#include "packet_output.hpp"
#include "packets/sequence.hpp"
#include "request_packets.hpp"
#include "retry_timer.hpp"

namespace verbatim::softnic {

class RequestWindow {
  public:
    // All outlive this. A foreign peer acknowledges only where it is asked.
    RequestWindow(RequestPackets& packets, ReadResults& results, PeerWords& words,
                  const SequenceSpace& space, bool foreign) noexcept;

    // Before anything was sent: packets are numbered so.
    void number_from(const SequenceSpace& space) noexcept { space_ = space; }
    // What the peer's responder sent. False: it breaks the protocol.
    bool take(const WirePacket& packet, FlowTime now) noexcept;
    // The peer has found marks of congestion.
    void take_notice() noexcept { window_.take_notice(acknowledged_, packets_.most()); }
    // Sends what may be sent now.
    void send(PacketOutput& output, FlowTime now) noexcept;
    // Everything that came was taken: what has no answer in time is lost, and is sent again next.
    // False: it was sent again as long as the patience lasts.
    bool expire(FlowTime now) noexcept;
    // As RetryTimer has it.
    void set_patience(std::chrono::nanoseconds patience) noexcept { timer_.set_patience(patience); }
    // True once: what was sent is awaited, and has not asked for an acknowledgement.
    bool take_question() noexcept;
    // Something is not answered: send() is to be called at times. Any thread.
    bool timed() const noexcept { return timed_.load(std::memory_order_relaxed); }
    // Packets wait for the window, or for the peer.
    bool unsent() const noexcept { return packets_.unsent(); }
    bool in_flight() const noexcept { return packets_.in_flight() != 0; }
    // Packets that were sent again.
    std::uint64_t repeated() const noexcept { return repeated_; }

  private:
    struct Waiting {
        bool active = false;
        std::uint64_t number = 0;  // the oldest packet when the last message waited
        std::uint32_t tries = 0;   // of it, that the peer has answered so
        bool sent = false;         // again, since the last answer
        FlowTime until;
        std::chrono::nanoseconds delay{0};
    };

    void take_acknowledgement(const WirePacket& packet, std::uint64_t number,
                              FlowTime now) noexcept;
    bool take_response(const WirePacket& packet, std::uint64_t number, FlowTime now) noexcept;
    void take_state(const WirePacket& packet, std::uint64_t number, FlowTime now) noexcept;
    void acknowledge(std::uint64_t number, FlowTime now) noexcept;
    void progress(std::uint64_t number, FlowTime now) noexcept;
    void wait(std::uint8_t syndrome, FlowTime now) noexcept;
    void refuse(std::uint8_t syndrome) noexcept;
    void lose_packets(FlowTime now) noexcept;
    void go_back(FlowTime now) noexcept;
    void probe(PacketOutput& output, FlowTime now) noexcept;
    bool asks(const KeptPacket& packet) const noexcept;
    void emit(PacketOutput& output, const KeptPacket& packet, const Gathered& body,
              bool asks) noexcept;
    bool may_send() const noexcept { return packets_.in_flight() < window_.packets(); }

    RequestPackets& packets_;
    ReadResults& results_;
    PeerWords& words_;
    SequenceSpace space_;
    const bool foreign_;
    WordsBody said_;  // what words_ has
    std::uint64_t acknowledged_ = 0, asked_ = 0;
    CongestionWindow window_;
    bool recovering_ = false;
    RetryTimer timer_;
    Waiting waiting_;
    std::uint64_t repeated_ = 0;
    std::atomic<bool> timed_{false};
};

}  // namespace verbatim::softnic
