// What the responder has done, as packets.
#include <algorithm>
#include <cstring>

#include "packet_feeder.hpp"
#include "packets/message_opcodes.hpp"
#include "packets/not_ready_time.hpp"

namespace verbatim::softnic {
namespace {

// Bytes of one or two runs, one after the other.
class RunReader {
  public:
    explicit RunReader(const Gathered& runs) noexcept : runs_(runs) {}

    std::size_t left() const noexcept { return runs_.bytes - taken_; }
    // Calls function(data, bytes) for each contiguous part of the next bytes.
    template <class Function>
    void take(std::size_t bytes, Function&& function) noexcept {
        for (; bytes != 0;) {
            const iovec& run = runs_.runs[run_];
            const std::size_t part = std::min(bytes, run.iov_len - at_);
            function(static_cast<const std::byte*>(run.iov_base) + at_, part);
            taken_ += part, at_ += part, bytes -= part;
            if (at_ == run.iov_len) ++run_, at_ = 0;
        }
    }
    template <class Value>
    Value take() noexcept {
        Value value;
        auto* to = reinterpret_cast<std::byte*>(&value);
        take(sizeof value, [&](const std::byte* from, std::size_t part) {
            std::memcpy(to, from, part);
            to += part;
        });
        return value;
    }

  private:
    const Gathered& runs_;
    int run_ = 0;
    std::size_t at_ = 0, taken_ = 0;
};

AnswerHeader acknowledges(std::uint64_t number) noexcept {
    return answer_header(kAcknowledged, number);
}

// Of a response, all packets but the middle ones have such a header.
bool has_header(PacketOpcode opcode) noexcept { return opcode != PacketOpcode::response_middle; }

void keep(KeptAnswers& kept, const FrameHeader& result, RunReader& reader) noexcept {
    const std::size_t bytes = result.bytes - sizeof result;
    const PacketOpcode opcode = opcode_of(result);
    const AnswerHeader answer = acknowledges(result.number);
    const std::size_t header_bytes = has_header(opcode) ? sizeof answer : 0;
    kept.begin(result.number, opcode, header_bytes + bytes);
    kept.add(&answer, header_bytes);
    if (opcode == PacketOpcode::atomic_acknowledge) {
        const SplitWord before(reader.take<std::uint64_t>());
        kept.add(&before, sizeof before);
        return;
    }
    reader.take(bytes, [&](const std::byte* from, std::size_t part) { kept.add(from, part); });
}

// Of a response that was sent before. The results stay where they are until the output is flushed.
void send_again(PacketOutput& output, std::uint32_t sequence, const FrameHeader& result,
                RunReader& reader) noexcept {
    const PacketOutput::Head head{opcode_of(result), false, false, sequence};
    Gathered payload;
    reader.take(result.bytes - sizeof result, [&](const std::byte* from, std::size_t part) {
        payload.runs[payload.count++] = {const_cast<std::byte*>(from), part};
        payload.bytes += part;
    });
    if (has_header(head.opcode))
        output.add(head, acknowledges(result.number), payload);
    else
        output.add(head, payload);
}

}  // namespace

// Reads of no bytes up to this number, before which all is answered; one may have been before.
void PacketFeeder::keep_empties(PacketOutput& output, std::uint64_t until) noexcept {
    for (std::uint64_t number = 0; (number = reads_.oldest_empty()) != 0 && number <= until;) {
        const AnswerHeader answer = acknowledges(number);
        if (number > kept_.newest()) {
            kept_.begin(number, PacketOpcode::response_only, sizeof answer);
            kept_.add(&answer, sizeof answer);
        } else {
            output.add({PacketOpcode::response_only, false, false, space_.sequence_of(number)},
                       answer);
        }
        reads_.answer_empty();
    }
}

// Results leave the queue whole, and in the order of their numbers, but for those of before.
void PacketFeeder::keep_results(PacketOutput& output) noexcept {
    Gathered runs;
    results_.gather(runs);
    for (RunReader reader(runs); reader.left() != 0;) {
        const auto header = reader.take<FrameHeader>();
        if ((header.flags & kAgainPart) != 0) {
            send_kept(output);
            send_again(output, space_.sequence_of(header.number), header, reader);
        } else {
            keep_empties(output, header.number);
            keep(kept_, header, reader);
        }
    }
    results_.note_sent(runs.bytes);
    keep_empties(output, acknowledgeable());
}

void PacketFeeder::send_kept(PacketOutput& output) noexcept {
    told_.acknowledged = std::max(told_.acknowledged, kept_.send(output, space_));
}

// The packets up to this number are done, but for the parts of a message that is not complete:
// those are in the ring.
std::uint64_t PacketFeeder::acknowledgeable() noexcept {
    const bool all = words_.waits == 0 && words_.refused == 0 && feeder_.all_acknowledged();
    return std::max(told_.acknowledged, all ? feeder_.taken() : words_.acknowledged);
}

void PacketFeeder::tell(PacketOutput& output, std::uint64_t number,
                        std::uint8_t syndrome) const noexcept {
    output.add({PacketOpcode::acknowledge, false, false, space_.sequence_of(number)},
               answer_header(syndrome, number));
}

bool PacketFeeder::answer(PacketOutput& output, std::uint8_t state_flags, Says says,
                          FlowTime now) noexcept {
    if (!feeder_.answer(results_, words_)) return false;
    const std::uint64_t before = told_.acknowledged;
    keep_results(output);
    repeat_answer();
    send_kept(output);
    tell_progress(output, says, now);
    if (told_.acknowledged != before) told_.complete = now;
    if (!foreign_ && (told_.state || state_flags != 0 || words_.state != told_.last_state))
        tell_state(output, state_flags);
    told_.again = told_.state = false;
    return true;
}

// Packets that ask come all the time, and ahead of what is done. A peer of ours that has not asked
// sends again after 8 ms.
bool PacketFeeder::owes_acknowledgement(std::uint64_t done, Says says,
                                        FlowTime now) const noexcept {
    constexpr std::uint64_t kMostUnsaid = 16;  // as many as a peer of ours sends until it asks
    constexpr std::chrono::microseconds kMostDelay{500};
    if (done == told_.acknowledged) return false;
    if (told_.asked > told_.acknowledged &&
        ((told_.asked <= done && says != Says::least) || done - told_.acknowledged >= kMostUnsaid))
        return true;
    return !foreign_ && (says == Says::all || now - told_.complete >= kMostDelay);
}

// A response acknowledges all before it. A plain acknowledgement of a read or atomic operation
// would complete it without its result: rdma_rxe takes it for the response.
void PacketFeeder::repeat_answer() noexcept {
    if (!told_.again || words_.waits != 0 || words_.refused != 0) return;
    const std::uint64_t done = acknowledgeable();
    if (done == 0 || kept_.newest() != done) return;
    kept_.repeat(done);
    told_.again = false;
}

// One word is enough: each says all that those before it do.
void PacketFeeder::tell_progress(PacketOutput& output, Says says, FlowTime now) noexcept {
    const std::uint64_t done = acknowledgeable(), taken = feeder_.taken();
    if (done == told_.acknowledged) told_.complete = now;
    if (words_.refused != 0) {
        const bool is_read_again = told_.read_again != 0 && done == taken;
        if (told_.again || told_.refused == 0)
            tell(output, is_read_again ? told_.read_again : done + 1, refusal_of(words_.refused));
        told_.refused = words_.refused;
    } else if (words_.waits != 0) {
        const auto time = std::chrono::nanoseconds(words_.not_ready_for);
        if (told_.again || told_.waiting != done + 1)
            tell(output, done + 1, kNotReady | not_ready_code(time));
        told_.waiting = done + 1;
    } else if ((told_.gap || (told_.dropped && words_.stopped == 0)) && done == taken) {
        tell(output, taken + 1, kWrongSequence);
        told_.gap = told_.dropped = false;
        told_.gap_told = true;
        told_.acknowledged = taken;
    } else if (done != 0 && (told_.again || owes_acknowledgement(done, says, now))) {
        tell(output, done, kAcknowledged);
        told_.acknowledged = done;
    }
}

// What changed is said more than once: nobody asks for it again.
void PacketFeeder::tell_state(PacketOutput& output, std::uint8_t flags) noexcept {
    const int times = words_.state != told_.last_state || (flags & kGivesUp) != 0 ? 3 : 1;
    const StateHeader header{words_.state, flags, words_.refused, 0};
    for (int i = 0; i < times; ++i)
        output.add({PacketOpcode::state, false, false, space_.sequence_of(acknowledgeable())},
                   header);
    told_.last_state = words_.state;
}

}  // namespace verbatim::softnic
