// Acknowledgements, losses and timers of a requester's packets.
#include "request_window.hpp"

#include <algorithm>
#include <utility>

#include "packets/not_ready_time.hpp"

namespace verbatim::softnic {
namespace {

constexpr std::chrono::milliseconds kFirstProbe{1}, kMostProbe{64};
constexpr std::uint64_t kAsksEvery = 16;

mlx5::Syndrome syndrome_of(std::uint8_t answer) noexcept {
    if (answer == kWrongRequest) return mlx5::Syndrome::remote_invalid;
    return answer == kNoAccess ? mlx5::Syndrome::remote_access : mlx5::Syndrome::remote_operation;
}

bool ends_message(PacketOpcode opcode) noexcept {
    return shape_of(static_cast<std::uint8_t>(opcode)).last;
}

}  // namespace

RequestWindow::RequestWindow(RequestPackets& packets, ReadResults& results, PeerWords& words,
                             const SequenceSpace& space, bool foreign) noexcept
    : packets_(packets), results_(results), words_(words), space_(space), foreign_(foreign) {}

bool RequestWindow::take(const WirePacket& packet, FlowTime now) noexcept {
    const std::int64_t number = space_.number_of(packet.sequence, acknowledged_);
    if (number < 0 || static_cast<std::uint64_t>(number) > packets_.most()) {
        // A state may come before anything was sent.
        if (packet.opcode != PacketOpcode::state) return true;
    }
    const auto counted = static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
    switch (packet.opcode) {
        case PacketOpcode::acknowledge:
            take_acknowledgement(packet, counted, now);
            return true;
        case PacketOpcode::state:
            take_state(packet, counted, now);
            return true;
        default:
            return take_response(packet, counted, now);
    }
}

void RequestWindow::take_acknowledgement(const WirePacket& packet, std::uint64_t number,
                                         FlowTime now) noexcept {
    constexpr int kSyndromeShift = 24;
    const auto syndrome =
        static_cast<std::uint8_t>(packet.read<AnswerHeader>().word.native() >> kSyndromeShift);
    constexpr std::uint8_t kKind = 0x60;
    if ((syndrome & kKind) == 0) return acknowledge(number, now);
    if (number == 0) return;
    acknowledge(number - 1, now);
    if (number != acknowledged_ + 1) return;  // of before
    if ((syndrome & kKind) == kNotReady)
        wait(syndrome, now);
    else if (syndrome == kWrongSequence)
        waiting_.active ? go_back(now) : lose_packets(now);
    else if (syndrome <= kFailedOperation && syndrome > kWrongSequence)
        refuse(syndrome);
}

// Responses come in the order of questions; one that is missing is asked for again.
bool RequestWindow::take_response(const WirePacket& packet, std::uint64_t number,
                                  FlowTime now) noexcept {
    const std::uint64_t expected = results_.expected();
    if (expected == 0 || number < expected) return true;
    if (number > expected) {
        acknowledge(expected - 1, now);
        lose_packets(now);
        return true;
    }
    if (packet.opcode == PacketOpcode::atomic_acknowledge) {
        const std::uint64_t before = packet.read<AtomicAnswerHeader>().before.native();
        if (!results_.arrive(number, std::as_bytes(std::span(&before, 1)))) return false;
    } else if (!results_.arrive(number, packet.payload)) {
        return false;
    }
    acknowledge(number, now);
    return true;
}

void RequestWindow::take_state(const WirePacket& packet, std::uint64_t number,
                               FlowTime now) noexcept {
    const auto body = packet.read<StateHeader>();
    constexpr std::uint8_t kMostState = static_cast<std::uint8_t>(ReceiverState::closed);
    if (body.state > kMostState) return;
    if (number <= packets_.most()) acknowledge(number, now);
    if (body.refused != 0 && said_.refused == 0) said_.refused = body.refused;
    said_.state = std::max(said_.state, body.state);
    words_.store(said_);
}

// What was acknowledged beyond a question whose answer has not come shows that this was lost.
void RequestWindow::acknowledge(std::uint64_t number, FlowTime now) noexcept {
    const std::uint64_t expected = results_.expected();
    const bool beyond = expected != 0 && number >= expected && expected <= packets_.most();
    if (beyond) number = expected - 1;
    if (number > acknowledged_) progress(number, now);
    if (beyond) lose_packets(now);
}

void RequestWindow::progress(std::uint64_t number, FlowTime now) noexcept {
    window_.grow(number - acknowledged_);
    acknowledged_ = number;
    packets_.release(number);
    recovering_ = waiting_.active = false;
    timer_.restart(now);
    said_.acknowledged = said_.taken = number;
    said_.waits = 0;
    words_.store(said_);
}

// Of one message it is counted once, however often it is said. A try is one that the peer answers:
// answers may be doubled, or be lost.
void RequestWindow::wait(std::uint8_t syndrome, FlowTime now) noexcept {
    const std::chrono::nanoseconds time = not_ready_time(syndrome);
    if (waiting_.number != acknowledged_ + 1) {
        waiting_ = {.number = acknowledged_ + 1, .tries = 1};
        waiting_.delay = std::max<std::chrono::nanoseconds>(time, kFirstProbe);
        ++said_.not_ready;
    } else if (std::exchange(waiting_.sent, false)) {
        ++waiting_.tries;
    }
    words_.count_tries(waiting_.tries);
    timer_.restart(now);
    waiting_.until = waiting_.active ? std::max(waiting_.until, now + time) : now + waiting_.delay;
    waiting_.active = packets_.in_flight() != 0;  // else it is sent again anyhow
    said_.waits = 1;
    said_.not_ready_for = static_cast<std::uint64_t>(time.count());
    words_.store(said_);
}

void RequestWindow::refuse(std::uint8_t syndrome) noexcept {
    said_.refused = static_cast<std::uint8_t>(syndrome_of(syndrome));
    said_.state = std::max(said_.state, static_cast<std::uint8_t>(ReceiverState::error));
    words_.store(said_);
}

// The first sign of a loss; others that follow are of the same.
void RequestWindow::lose_packets(FlowTime now) noexcept {
    if (recovering_ || packets_.in_flight() == 0) return;
    window_.lose(packets_.most());
    go_back(now);
}

void RequestWindow::go_back(FlowTime now) noexcept {
    repeated_ += packets_.in_flight();
    packets_.rewind();
    recovering_ = true;
    waiting_.active = false;
    timer_.start(now);
}

void RequestWindow::emit(PacketOutput& output, const KeptPacket& packet, const Gathered& body,
                         bool asks) noexcept {
    if (asks) asked_ = std::max(asked_, packet.last());
    waiting_.sent |= packet.number == waiting_.number;
    output.add({packet.opcode, packet.solicited, asks, space_.sequence_of(packet.number)}, body);
}

// Somebody waits, or much would be kept and sent again.
bool RequestWindow::asks(const KeptPacket& packet) const noexcept {
    const std::uint64_t awaited = packets_.awaited(), last = packet.last();
    const std::uint64_t most = std::min<std::uint64_t>(kAsksEvery, window_.packets() / 2);
    return (awaited > asked_ && last >= awaited) || last >= asked_ + most || !may_send() ||
           (foreign_ && (ends_message(packet.opcode) || !packets_.unsent()));
}

bool RequestWindow::take_question() noexcept {
    const std::uint64_t awaited = packets_.awaited();
    if (awaited <= std::max(asked_, acknowledged_) || awaited > packets_.most()) return false;
    asked_ = packets_.most();
    return true;
}

// Behind a message without a receive nothing is sent but that it still waits.
void RequestWindow::probe(PacketOutput& output, FlowTime now) noexcept {
    KeptPacket packet;
    Gathered body;
    if (now < waiting_.until || !packets_.oldest(packet, body)) return;
    emit(output, packet, body, true);
    ++repeated_;
    waiting_.delay = std::max(std::chrono::nanoseconds(said_.not_ready_for),
                              std::min<std::chrono::nanoseconds>(2 * waiting_.delay, kMostProbe));
    waiting_.until = now + waiting_.delay;
}

// A program that computes has not looked at what came meanwhile, so the time alone tells nothing.
// What waits for the peer is sent again by another timer.
bool RequestWindow::expire(FlowTime now) noexcept {
    if (packets_.in_flight() == 0) return true;
    const RetryTimer::State state = timer_.look(now);
    if (state == RetryTimer::State::expired && !waiting_.active) {
        recovering_ = false;
        lose_packets(now);
    }
    return state != RetryTimer::State::in_vain;
}

void RequestWindow::send(PacketOutput& output, FlowTime now) noexcept {
    if (waiting_.active) return probe(output, now);
    const bool idle = packets_.in_flight() == 0, new_ones = packets_.most() == acknowledged_;
    KeptPacket packet;
    for (Gathered body; may_send() && packets_.next(packet, body); body = {}) {
        const bool again = packet.last() <= packets_.most();
        packets_.note_sent(packet);
        emit(output, packet, body, again || asks(packet));
    }
    if (idle && packets_.in_flight() != 0) new_ones ? timer_.restart(now) : timer_.start(now);
    timed_.store(packets_.in_flight() != 0, std::memory_order_relaxed);
}

}  // namespace verbatim::softnic
