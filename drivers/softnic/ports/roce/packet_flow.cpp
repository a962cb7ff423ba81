// Turns inside a flow's gate: packets in, packets out.
#include "packet_flow.hpp"

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

using Taken = PacketFeeder::Taken;
using Says = PacketFeeder::Says;

// So often a kernel says that the peer's socket is gone until that is believed.
constexpr std::uint32_t kMostRefusals = 8;
// And a peer that lives has the time to answer meanwhile: such messages can be forged.
constexpr std::chrono::milliseconds kProbeEvery{2}, kLeastSilence{50};
// A peer that was heard so recently need not be asked whether it is there.
constexpr std::chrono::milliseconds kRecently{500};

// Of those without an extended header, which are most of a long message. Others send no runs.
std::size_t longest_datagram(const FlowOptions& options) noexcept {
    return options.foreign ? 0 : sizeof(BaseHeader) + options.mtu + kChecksumBytes;
}

}  // namespace

PacketFlow::PacketFlow(std::unique_ptr<PacketBackEnd> back_end, ChannelSender ring,
                       const FlowOptions& options, FailureText& failure)
    : options_(options),
      generation_(fork_generation()),
      failure_(failure),
      back_end_(std::move(back_end)),
      incoming_(PacketChecksum::with_runs(options.peer.place, options.own.place,
                                          longest_datagram(options))),
      output_(*back_end_,
              PacketChecksum::with_runs(options.own.place, options.peer.place,
                                        longest_datagram(options)),
              options.peer.queue_pair),
      results_(options.questions),
      window_(requests_, results_, words_, SequenceSpace(options.own.first_sequence),
              options.foreign),
      feeder_(std::move(ring), options.mtu, SequenceSpace(options.peer.first_sequence),
              options.foreign) {
    silence_.heard = std::chrono::steady_clock::now();
}

void PacketFlow::begin_sending(const FlowStart& start) noexcept {
    gate_.enter_waiting();
    window_.number_from(SequenceSpace(start.first_sequence));
    results_.limit_requests(start.reads);
    do send_out(std::chrono::steady_clock::now());
    while (!gate_.leave());
}

Wire::Found PacketFlow::progress() noexcept {
    if (generation_ != fork_generation() || !gate_.try_enter()) return Found::nothing;
    const Found found = turn();
    while (!gate_.leave()) send_out(std::chrono::steady_clock::now());
    return found;
}

void PacketFlow::flush() noexcept {
    if (generation_ != fork_generation() || !gate_.enter()) return;
    do send_out(std::chrono::steady_clock::now());
    while (!gate_.leave());
}

Wire::Found PacketFlow::turn() noexcept {
    if (words_.lost()) return Found::nothing;
    const bool moved = batch_.next != batch_.count || receive();
    const std::uint32_t looks = silence_.note(moved);
    if (!moved && !is_whole(looks) && !window_.unsent()) return Found::unchanged;
    const FlowTime now = std::chrono::steady_clock::now();
    const Found found = moved ? take_batch(now) : Found::nothing;
    if (found != Found::more && !words_.silent() && !window_.expire(now)) {
        failure_.set("the peer has acknowledged nothing, however often it was sent");
        lose();
    }
    // Of what came first since a look in vain, nothing is done yet: the next look says more.
    const bool first = found == Found::last && looks > 1 && !marks_.armed.load();
    if (!first || window_.unsent())
        send_out(now, !moved && looks >= kMostLooks ? Says::asked : Says::least);
    return found;
}

bool PacketFlow::receive() noexcept {
    batch_.count = back_end_->receive({batch_.bytes.get(), Batch::kPackets * Batch::kEach},
                                      Batch::kEach, batch_.lengths);
    batch_.next = 0;
    batch_.parsed = false;
    if (batch_.count == 0) return false;
    batch_.marked = back_end_->marked();
    return true;
}

Wire::Found PacketFlow::take_batch(FlowTime now) noexcept {
    for (; batch_.next != batch_.count; ++batch_.next, batch_.parsed = false) {
        if (words_.lost()) {
            batch_.next = batch_.count;
            break;
        }
        if (!batch_.parsed && !admit(batch_.next)) continue;
        batch_.parsed = true;
        silence_.heard = now;
        silence_.asked = false;
        const Taken taken = take(batch_.packet, now);
        if (taken == Taken::later) return Found::more;
        if (taken == Taken::malformed) break_protocol();
    }
    return batch_.count == Batch::kPackets ? Found::more : Found::last;
}

// Nothing of a packet counts before. Its address was looked at by the back end.
bool PacketFlow::admit(std::size_t index) noexcept {
    if (batch_.lengths[index] == 0) return false;  // counted there
    const std::span datagram(batch_.bytes.get() + index * Batch::kEach, batch_.lengths[index]);
    const bool own = parse_packet(datagram, options_.mtu, batch_.packet) &&
                     batch_.packet.queue_pair == options_.own.queue_pair &&
                     (options_.foreign || incoming_.fits(datagram));
    if (!own) ++batch_.dropped;
    const bool marked = own && (batch_.marked >> index & 1) != 0;
    if (marked && batch_.packet.opcode != PacketOpcode::congestion_notice) notices_.note_mark();
    return own;
}

Taken PacketFlow::take(const WirePacket& packet, FlowTime now) noexcept {
    if (!packet.shape.answers) return feeder_.take(packet);
    note_answer();
    if (packet.opcode == PacketOpcode::probe) {
        silence_.probed |= packet.read<ProbeHeader>().asks.native() != 0;
        return Taken::done;
    }
    if (packet.opcode == PacketOpcode::congestion_notice) {
        window_.take_notice();
        return Taken::done;
    }
    if (packet.opcode == PacketOpcode::state) {
        const auto body = packet.read<StateHeader>();
        if ((body.flags & kGivesUp) != 0) feeder_.give_up();
        if ((body.flags & kWantsAnswer) != 0) feeder_.ask_for_state();
        if ((body.flags & kWantsAcknowledgement) != 0) feeder_.ask_for_acknowledgement();
    }
    return window_.take(packet, now) ? Taken::done : Taken::malformed;
}

// Of the state that is to be sent.
std::uint8_t PacketFlow::take_flags() noexcept {
    const bool gives_up = marks_.gives_up.load() && marks_.gives_up.exchange(false);
    const bool awaits = !options_.foreign && window_.take_question();
    return (gives_up ? kGivesUp : 0) | (std::exchange(silence_.asks, false) ? kWantsAnswer : 0) |
           (awaits ? kWantsAcknowledgement : 0);
}

// Where nobody looks again before the socket is ready, everything is said.
void PacketFlow::send_out(FlowTime now, Says says) noexcept {
    if (words_.lost()) return;
    watch(now);
    const bool silent = words_.silent();
    // Requests go ahead of answers, and before those are looked for: the peer's program waits for
    // them, and for acknowledgements mostly nobody does. Where it does, it relies on the completion
    // before the answer.
    const bool awaited = feeder_.is_asked();
    if (!silent && !awaited) {
        window_.send(output_, now);
        output_.flush();
    }
    if (marks_.armed.load()) says = Says::all;
    if (!feeder_.answer(output_, take_flags(), says, now)) return break_protocol();
    if (!silent && awaited) window_.send(output_, now);
    if (std::exchange(silence_.probed, false))
        output_.add({PacketOpcode::probe, false, false, 0}, ProbeHeader{mlx5::be32(0)});
    if (notices_.take(now))
        output_.add({PacketOpcode::congestion_notice, false, false, 0}, NoticeHeader{});
    output_.flush();
    note_counts();
    marks_.waits.store(feeder_.waits(), std::memory_order_relaxed);
    marks_.unfinished.store(batch_.next != batch_.count, std::memory_order_relaxed);
    const bool refused = back_end_->refusals() != 0;
    marks_.timed.store((window_.timed() && !silent) || refused, std::memory_order_relaxed);
}

// A peer that does not answer; one whose kernel says why is asked at once. A foreign one cannot be
// asked: its requests' retries decide, and behind the last one nothing is sent any more.
void PacketFlow::watch(FlowTime now) noexcept {
    if (options_.foreign) {
        if (marks_.gives_up.load()) lose();
        return;
    }
    const bool waits = window_.in_flight() && !words_.silent();
    if (!waits && !silence_.asked && back_end_->refusals() == 0) return;
    const bool refused = back_end_->refusals() != 0;
    if (refused && now >= silence_.ask_again) {
        silence_.asks = true;
        silence_.ask_again = now + kProbeEvery;
    }
    if (back_end_->refusals() >= kMostRefusals && now - silence_.heard > kLeastSilence) {
        failure_.set("the peer's machine says that its socket is gone");
        lose();
    } else if (now - silence_.heard > options_.timeout) {
        failure_.set("nothing was heard of the peer for {} ms", options_.timeout.count());
        lose();
    }
}

// Waits for nobody: a thread inside hears the peer by itself, or misses it too.
void PacketFlow::beat() noexcept {
    const bool may = generation_ == fork_generation() && attached() && !words_.lost();
    if (!may || !gate_.try_enter()) return;
    const FlowTime now = std::chrono::steady_clock::now();
    if (!options_.foreign && !window_.in_flight() && now - silence_.heard > kRecently)
        silence_.asks = silence_.asked = true;
    do send_out(now);
    while (!gate_.leave());
}

void PacketFlow::break_protocol() noexcept {
    failure_.set("the peer's packets break the protocol: opcode {:#x} with sequence {}",
                 static_cast<unsigned>(batch_.packet.opcode), batch_.packet.sequence);
    log::warn("udp port: {}", failure_.view());
    lose();
}

void PacketFlow::note_counts() noexcept {
    counts_.sent.store(output_.count(), std::memory_order_relaxed);
    counts_.repeated.store(window_.repeated(), std::memory_order_relaxed);
    counts_.dropped.store(batch_.dropped + back_end_->foreign(), std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
