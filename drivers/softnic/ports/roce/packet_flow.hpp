// A flow carries the requests of two connected queue pairs, and their answers, as packets of
// datagrams. States, owners and threads: docs/roce-port.md. The thread inside its gate receives,
// feeds the responder's ring and sends.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "../../../softqueue/failure_text.hpp"
#include "../../../softqueue/gate.hpp"
#include "../tcp/wire.hpp"
#include "back_end/udp_socket.hpp"
#include "congestion_notices.hpp"
#include "packet_feeder.hpp"
#include "packets/flow_end.hpp"
#include "request_window.hpp"

namespace verbatim::softnic {

struct FlowOptions {
    FlowEnd own, peer;
    std::size_t mtu = 1024;                    // bytes
    std::size_t questions = 16;                // packets of responses that the peer answers at once
    std::chrono::milliseconds timeout{60000};  // of a silent peer of ours
    // No software NIC of ours: it knows no packets of our own, and its checksums were looked at.
    bool foreign = false;
};

// Of a foreign peer, known once this side may send.
struct FlowStart {
    std::uint32_t first_sequence = 0;  // the PSN of the first packet
    std::size_t reads = kQuestions;    // reads and atomic operations that it remembers
};

class PacketFlow final : public Wire {
  public:
    // `ring`: the queue pair's own. Throws std::bad_alloc.
    PacketFlow(std::unique_ptr<PacketBackEnd> back_end, ChannelSender ring,
               const FlowOptions& options, FailureText& failure);

    // It has its socket. From now on the engine thread may drive it.
    void attach(Descriptor, Origin) noexcept override {
        marks_.attached.store(true, std::memory_order_release);
        flush();
    }
    int socket() const noexcept override { return back_end_->file(); }
    Found progress() noexcept override;
    bool occupied() const noexcept override { return gate_.occupied(); }
    void flush() noexcept override;
    bool beats() const noexcept override { return true; }
    void beat() noexcept override;
    void set_patience(std::chrono::nanoseconds patience) noexcept override {
        window_.set_patience(patience);
    }
    PacketCounts packets() const noexcept override {
        return {counts_.sent.load(std::memory_order_relaxed),
                counts_.repeated.load(std::memory_order_relaxed),
                counts_.dropped.load(std::memory_order_relaxed) + back_end_->unseen()};
    }
    // Control path, before anything is posted.
    void begin_sending(const FlowStart& start) noexcept;
    // The requester's, inside the send gate.
    RequestPackets& requests() noexcept { return requests_; }
    ReadResults& results() noexcept { return results_; }
    std::size_t mtu() const noexcept { return options_.mtu; }

  private:
    // A batch of received datagrams, and which of them is next.
    struct Batch {
        static constexpr std::size_t kPackets = 16;
        static constexpr std::size_t kEach = (kMaxPacketBytes + 63) / 64 * 64;
        std::unique_ptr<std::byte[]> bytes =
            std::make_unique_for_overwrite<std::byte[]>(kPackets * kEach);
        std::array<std::size_t, kPackets> lengths{};
        std::size_t count = 0, next = 0;
        std::uint32_t marked = 0;  // as PacketBackEnd has it
        bool parsed = false;       // the next one is `packet`
        WirePacket packet;
        std::uint64_t dropped = 0;  // malformed so far, or not for this queue pair
    };
    // For any thread; written inside the gate.
    struct Counts {
        std::atomic<std::uint64_t> sent{0}, repeated{0}, dropped{0};
    };
    // When the peer was heard last, and what is to be said to it.
    struct Silence {
        FlowTime heard, ask_again;
        std::uint32_t looks = 0;  // in a row that found nothing
        bool asks = false, asked = false;
        bool probed = false;  // a probe is to be answered

        // Returns how many looks there were since the last one that found something.
        std::uint32_t note(bool found) noexcept {
            return std::exchange(looks, found ? 0 : looks + 1) + 1;
        }
    };

    Found turn() noexcept;
    bool receive() noexcept;
    Found take_batch(FlowTime now) noexcept;
    bool admit(std::size_t index) noexcept;
    PacketFeeder::Taken take(const WirePacket& packet, FlowTime now) noexcept;
    void send_out(FlowTime now, PacketFeeder::Says says = PacketFeeder::Says::asked) noexcept;
    std::uint8_t take_flags() noexcept;
    void watch(FlowTime now) noexcept;
    void break_protocol() noexcept;
    void lose() noexcept { words_.lose(); }
    void note_counts() noexcept;

    FlowOptions options_;
    const std::uint64_t generation_;
    FailureText& failure_;
    Gate gate_;
    const std::unique_ptr<PacketBackEnd> back_end_;
    const PacketChecksum incoming_;
    PacketOutput output_;
    RequestPackets requests_;
    ReadResults results_;
    RequestWindow window_;
    PacketFeeder feeder_;
    Batch batch_;
    Silence silence_;
    CongestionNotices notices_;
    Counts counts_;
};

}  // namespace verbatim::softnic
