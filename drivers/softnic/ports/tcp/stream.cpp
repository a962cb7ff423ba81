// Turns inside a stream's gate: frames in, frames out.
#include "stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <verbatim/driver/log.hpp>

namespace verbatim::softnic {
namespace {

// Frames that a responder takes before it says so at once; else its words wait for the next frame
// that it sends, or for turns in which nothing comes.
constexpr std::uint64_t kMostUntold = 2;
// Words are no reason to refuse results their room.
constexpr std::size_t kRoomForResults = kResultBytes + (kQuestions + 1) * sizeof(FrameHeader);

// As sendmsg(). Few bytes in one piece, which is quicker: the kernel reads each run's address
// before it reads the run.
ssize_t send_runs(int socket, Gathered& runs) noexcept {
    constexpr std::size_t kShort = 512;
    constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
    std::array<std::byte, kShort> whole;
    if (runs.bytes > kShort) {
        msghdr message{};
        message.msg_iov = runs.runs;
        message.msg_iovlen = static_cast<std::size_t>(runs.count);
        return sendmsg(socket, &message, kFlags);
    }
    std::size_t bytes = 0;
    for (int i = 0; i < runs.count; bytes += runs.runs[i++].iov_len)
        std::memcpy(whole.data() + bytes, runs.runs[i].iov_base, runs.runs[i].iov_len);
    return send(socket, whole.data(), bytes, kFlags);
}

}  // namespace

Stream::Stream(ChannelSender ring, std::size_t questions, FailureText& failure)
    : generation_(fork_generation()),
      failure_(failure),
      feeder_(std::move(ring)),
      results_(questions) {}

// What the peer has sent and nobody reads any more would make the kernel discard our last words.
Stream::~Stream() {
    if (generation_ != fork_generation() || !attached()) return;
    shutdown(socket_.get(), SHUT_WR);
    constexpr int kMostReads = 16;
    for (int i = 0; i < kMostReads; ++i) {
        const auto room = input_.room();
        if (recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT) <= 0) return;
    }
}

void Stream::attach(Descriptor socket, Origin origin) noexcept {
    gate_.enter_waiting();
    socket_ = std::move(socket);
    greeted_ = origin == Origin::accepted;
    marks_.attached.store(true, std::memory_order_release);
    gate_.leave_for_good();
    flush();
}

void Stream::expire() noexcept {
    failure_.set("no stream of the peer came in time: did it connect, and does a firewall let it?");
    words_.lose();
}

Wire::Found Stream::progress() noexcept {
    if (generation_ != fork_generation() || !gate_.try_enter()) return Found::nothing;
    const Found found = turn();
    while (!gate_.leave()) {
        answer(true);
        send_out();
    }
    return found;
}

void Stream::flush() noexcept {
    if (generation_ != fork_generation() || !gate_.enter()) return;
    do {
        answer(true);
        send_out();
    } while (!gate_.leave());
}

Wire::Found Stream::turn() noexcept {
    if (words_.lost() || !attached()) return Found::nothing;
    const Found found = take_frames() ? receive() : Found::nothing;
    const bool moved = found != Found::nothing;
    const std::uint32_t looks = std::exchange(looks_, moved ? 0 : looks_ + 1) + 1;
    const bool unsent = blocked_ || requests_.unsent() || answers_.unsent() || marks_.armed.load();
    if (!moved && !unsent && !is_whole(looks)) return Found::unchanged;
    // Of what came first since a look in vain, nothing is done yet: the next look says more.
    if (unsent || found != Found::last || looks == 1) {
        answer((!moved && looks >= kMostLooks) || marks_.armed.load());
        send_out();
    }
    return blocked_ ? Found::more : found;
}

Wire::Found Stream::receive() noexcept {
    const auto room = input_.room();
    const ssize_t got = recv(socket_.get(), room.data(), room.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Found::nothing;
    if (got <= 0) {
        if (got < 0) failure_.set("the stream to the peer broke: {}", strerrordesc_np(errno));
        words_.lose();
        return Found::nothing;
    }
    input_.add(static_cast<std::size_t>(got));
    take_frames();
    return static_cast<std::size_t>(got) == room.size() ? Found::more : Found::last;
}

// The peer's welcome has come; if it is another answer the stream is lost.
bool Stream::greeted() noexcept {
    StreamWelcome welcome;
    if (greeted_ || !input_.take(welcome)) return greeted_;
    greeted_ = true;
    if (welcome.magic != kStreamMagic)
        failure_.set("no software NIC answers at the address of the peer's streams");
    else if (welcome.version != kStreamVersion || welcome.status == StreamStatus::other_version)
        failure_.set("the peer speaks version {} of the stream protocol, this side {}",
                     welcome.version, kStreamVersion);
    else if (welcome.status != StreamStatus::welcome)
        failure_.set("the peer has no such queue pair (any more)");
    else
        return true;
    words_.lose();
    return false;
}

// False: the responder must run before the next one is taken.
bool Stream::take_frames() noexcept {
    if (!greeted()) return true;
    Frame frame;
    for (;;) {
        const FrameState state = input_.next(frame);
        if (state == FrameState::partial || words_.lost()) return true;
        const auto fed = state == FrameState::whole ? take(frame) : RequestFeeder::Fed::malformed;
        blocked_ = fed == RequestFeeder::Fed::later;
        if (blocked_) return false;
        if (fed == RequestFeeder::Fed::malformed) {
            break_protocol(state, frame.header);
            return true;
        }
        input_.take(frame);
    }
}

RequestFeeder::Fed Stream::take(const Frame& frame) noexcept {
    using Fed = RequestFeeder::Fed;
    switch (frame.header.kind) {
        case FrameKind::words:
            note_answer();
            return follow(frame.read<WordsBody>()) ? Fed::done : Fed::malformed;
        case FrameKind::result:
            note_answer();
            return results_.arrive(frame.header.number, frame.body) ? Fed::done : Fed::malformed;
        case FrameKind::give_up:
            feeder_.give_up();
            return Fed::done;
        default:
            return feeder_.feed(frame);
    }
}

// False: the words contradict what was sent, or those before.
bool Stream::follow(const WordsBody& words) noexcept {
    if (!requests_.release(words.taken) || !words_.store(words)) return false;
    if (words.stopped != 0) {
        requests_.pause();
    } else if (words.stops != repeated_) {
        repeated_ = words.stops;
        requests_.repeat();
    }
    return true;
}

// `now`: whatever is to be said; else only what the peer waits for.
void Stream::answer(bool now) noexcept {
    WordsBody words;
    if (words_.lost()) return;
    if (!feeder_.answer(answers_, words)) {
        failure_.set("the peer asks for more results than may be on their way");
        return break_protocol(FrameState::whole, {});
    }
    const bool urgent = words.taken - told_.taken >= kMostUntold || words.stopped != told_.stopped;
    if (words == told_ || !(now || urgent) || !answers_.whole() ||
        answers_.room() < kRoomForResults + sizeof(FrameHeader) + sizeof words)
        return;
    answers_.begin(FrameKind::words, 0, sizeof words);
    answers_.add(&words, sizeof words);
    told_ = words;
}

void Stream::send_out() noexcept {
    if (answers_.whole() && marks_.gives_up.load() && marks_.gives_up.exchange(false))
        answers_.begin(FrameKind::give_up, 0, 0);
    while (attached() && !words_.lost() && send_some()) {
    }
    marks_.unfinished.store(blocked_ || requests_.unsent() || answers_.unsent(),
                            std::memory_order_relaxed);
    marks_.waits.store(feeder_.waits(), std::memory_order_relaxed);
}

// False: nothing is left, or the socket takes no more. An error shows when the socket is read:
// there may be answers before it.
bool Stream::send_some() noexcept {
    Gathered out;
    if (!requests_.in_batch()) answers_.gather(out);
    const std::size_t of_answers = out.bytes;
    requests_.gather(out);
    if (out.bytes == 0) return false;
    const ssize_t sent = send_runs(socket_.get(), out);
    if (sent <= 0) return false;
    const std::size_t answers = std::min(static_cast<std::size_t>(sent), of_answers);
    answers_.note_sent(answers);
    requests_.note_sent(static_cast<std::size_t>(sent) - answers);
    return static_cast<std::size_t>(sent) == out.bytes;
}

// Nothing more is taken of this peer.
void Stream::break_protocol(FrameState state, const FrameHeader& header) noexcept {
    failure_.set("the peer's stream breaks the protocol: {} of kind {} with number {}, {} bytes",
                 state == FrameState::malformed ? "a malformed frame" : "an unexpected frame",
                 static_cast<unsigned>(header.kind), header.number, header.bytes);
    log::warn("tcp port: {}", failure_.view());
    shutdown(socket_.get(), SHUT_RDWR);
    words_.lose();
}

}  // namespace verbatim::softnic
