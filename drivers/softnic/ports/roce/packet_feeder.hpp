// The responder's side of a flow: takes the packets of a requester in their order, gives them as
// frames to the feeder of the responder's ring, and makes its answers packets (docs/roce-port.md).
// Owner: the flow. Threads: the one inside its gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "../../rings/remote_atomic.hpp"
#include "../tcp/request_feeder.hpp"
#include "congestion_notices.hpp"
#include "kept_answers.hpp"
#include "packet_output.hpp"
#include "packets/sequence.hpp"
#include "read_feeder.hpp"

namespace verbatim::softnic {

class PacketFeeder {
  public:
    // `ring`: the queue pair's own; `mtu` in bytes; `space`: of the peer's packets; a foreign peer
    // is not told of states. Throws std::bad_alloc.
    PacketFeeder(ChannelSender ring, std::size_t mtu, const SequenceSpace& space, bool foreign)
        : feeder_(std::move(ring)), reads_(feeder_, mtu), space_(space), foreign_(foreign) {}

    // Later: the responder must run first, and the packet is given again.
    enum class Taken : std::uint8_t { done, later, malformed };
    Taken take(const WirePacket& packet) noexcept;
    void give_up() noexcept { feeder_.give_up(); }
    // The peer wants to hear of the state.
    void ask_for_state() noexcept { told_.state = true; }
    // It waits until what was taken is acknowledged.
    void ask_for_acknowledgement() noexcept { told_.asked = feeder_.taken(); }
    // Somebody waits for an acknowledgement.
    bool is_asked() const noexcept { return told_.asked > told_.acknowledged; }

    // Which acknowledgements do not wait for another call: those that a peer cannot do without;
    // what it has asked for; all.
    enum class Says : std::uint8_t { least, asked, all };
    // What the responder has done becomes packets. False: its ring is broken.
    bool answer(PacketOutput& output, std::uint8_t state_flags, Says says, FlowTime now) noexcept;
    // A message waits for a receive that the program has not posted.
    bool waits() noexcept { return feeder_.waits(); }

  private:
    // The request that a part was taken of.
    struct Message {
        enum class Kind : std::uint8_t { none, send, write } kind = Kind::none;
        std::uint64_t address = 0;  // of a write: where the next part goes
        std::uint64_t left = 0;     // likewise: bytes
        std::uint32_t key = 0;
        std::uint32_t total = 0;  // bytes so far
    };
    // What is to be said, and what was.
    struct Told {
        bool state = false, again = false;  // to be said (again)
        bool gap = false;  // a packet is missing, which is to be said once all before it is done
        bool gap_told = false;
        bool dropped = false;  // the next packet came, and there was no room
        std::uint64_t asked = 0, acknowledged = 0;
        std::uint64_t waiting = 0;     // the packet whose RNR was told
        std::uint64_t read_again = 0;  // the packet that asked for what is read once more, or 0
        FlowTime complete;             // when nothing was left to be acknowledged
        std::uint8_t last_state = 0, refused = 0;
    };

    Taken take_earlier(const WirePacket& packet, std::uint64_t number) noexcept;
    Taken take_next(const WirePacket& packet) noexcept;
    bool dropped(std::uint64_t number) noexcept;
    Taken take_send(const WirePacket& packet) noexcept;
    Taken take_write(const WirePacket& packet) noexcept;
    Taken take_read(const WirePacket& packet, std::uint64_t number) noexcept;
    Taken go_on_reading() noexcept;
    Taken take_atomic(const WirePacket& packet) noexcept;
    void keep_results(PacketOutput& output) noexcept;
    void keep_empties(PacketOutput& output, std::uint64_t until) noexcept;
    void send_kept(PacketOutput& output) noexcept;
    void repeat_answer() noexcept;
    std::uint64_t acknowledgeable() noexcept;
    bool owes_acknowledgement(std::uint64_t done, Says says, FlowTime now) const noexcept;
    void tell_progress(PacketOutput& output, Says says, FlowTime now) noexcept;
    void tell_state(PacketOutput& output, std::uint8_t flags) noexcept;
    void tell(PacketOutput& output, std::uint64_t number, std::uint8_t syndrome) const noexcept;

    RequestFeeder feeder_;
    ReadFeeder reads_;
    AnswerQueue results_;
    KeptAnswers kept_;
    const SequenceSpace space_;
    const bool foreign_;
    Message message_;
    WordsBody words_;
    Told told_;
};

}  // namespace verbatim::softnic
