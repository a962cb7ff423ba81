// Sending and receiving by the model.
#include "soak_talk.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>

namespace verbatim::test::soak {
namespace {

using namespace std::chrono_literals;

// Marks, then what is read and added to.
constexpr std::size_t kMarksBytes = 2048, kLentBytes = kMarksBytes + Remote::kLentBytes,
                      kOwnBytes = kMarksBytes + Remote::kLocalBytes;

}  // namespace

Talk::Talk(Place& place, Connection made, std::uint32_t id)
    : place_(place),
      connection_(std::move(made)),
      id_(id),
      receive_arena_(connection_.receive_arena()),
      arena_(connection_.arena()),
      lent_(static_cast<std::byte*>(receive_arena_.allocate(kLentBytes, 64)),
            [arena = connection_.receive_arena_ptr()](std::byte* bytes) {
                arena->deallocate(bytes, kLentBytes, 64);
            }),
      source_(static_cast<std::byte*>(arena_.allocate(kOwnBytes, 64))) {
    const auto handle = [this](Message& message) { take(message); };
    connection_.on(kHandled, handle);
    connection_.on(kAsking, handle);
    connection_.on_end([this](Connection& ended) {
        ++ends_;
        expect(ended.state() != Errc::ok, "on_end before the end");
    });
    if (id_ == kUnknown) return;
    entry().joined[place_.side] = true;
    introduce();
}

Talk::~Talk() { arena_.deallocate(source_, kOwnBytes, 64); }

void Talk::expect(bool good, const std::string& what) const {
    if (good || place_.failed) return;
    place_.failed = true;
    place_.ledger.stop = true;
    ADD_FAILURE() << what << ": seed " << place_.plan.seed << ", side "
                  << static_cast<int>(place_.side) << ", connection " << static_cast<int>(id_)
                  << ", state " << name(connection_.state());
}

void Talk::accepted(Stream stream) noexcept {
    entry().accepted[place_.side][stream] = ++sent_[stream];
}

RemoteExtent Talk::lend() {
    Remote::fill({lent_.get() + kMarksBytes, Remote::kLentBytes}, id_, place_.side);
    grant_ =
        Grant::begin(connection_, {lent_.get(), kLentBytes},
                     Access::remote_write | Access::remote_read | Access::remote_atomic, lent_);
    expect(grant_.is_ready(), "grant");
    return grant_.extents()[0];
}

// The first message of each side. Nothing else was sent before it, so there is room.
void Talk::introduce() {
    Intro intro{id_, 0, {}};
    try {
        if (lends()) intro.extent = lend();
    } catch (const Error& error) {
        return expect(error.code() == Errc::peer_lost || place_.plan.may_lose, error.what());
    }
    const Errc error = connection_.try_send(1, std::as_bytes(std::span(&intro, 1)));
    // The peer may have gone already.
    expect(error == Errc::ok || error == Errc::peer_lost || place_.plan.may_lose, "introduction");
    if (error == Errc::ok) accepted(kProgram);
}

void Talk::meet(const Message& message) {
    Intro intro;
    if (message.payload().size() != sizeof intro || message.channel() != 1)
        return expect(false, "no introduction");
    std::memcpy(&intro, message.payload().data(), sizeof intro);
    const bool is_new = id_ == kUnknown;
    expect(is_new ? intro.id < place_.ledger.connections : intro.id == id_, "another connection");
    if (place_.failed) return;
    id_ = intro.id;
    target_ = intro.extent;
    if (lends())
        remote_.begin(source_ + kMarksBytes,
                      {target_.address + kMarksBytes, Remote::kLentBytes, target_.remote_key, 0},
                      id_, static_cast<std::uint8_t>(1 - place_.side));
    if (!is_new) return;
    expect(!entry().joined[place_.side].exchange(true), "a connection of before");
    introduce();
}

// ---- sending ----

// The write before a marked message. False: there is no room for it now.
bool Talk::write_mark(const Text& text) {
    if (is_written_ || !lends()) return true;
    if (marked_ - entry().marks[1 - place_.side] >= kMarkSlots) return false;
    const std::vector<std::byte> bytes = text.written();
    const std::size_t at = marked_ % kMarkSlots * kMarkBytes;
    std::ranges::copy(bytes, source_ + at);
    std::size_t written = 0;
    const Errc error = connection_.try_write(source_ + at, bytes.size(), target_.address + at,
                                             target_.remote_key, written);
    is_written_ = error == Errc::ok;
    return is_written_;
}

// By one of the ways to send it.
Errc Talk::post(const Text& text) {
    const std::span<const std::byte> all = text.bytes;
    const std::size_t cut = all.empty() ? 0 : place_.random() % all.size();
    const auto head = all.first(cut), body = all.subspan(cut);
    const bool is_long = all.size() > connection_.max_message_bytes();
    if (is_long || (text.kind == 0 && coin(8))) try {
            connection_.send_message(text.channel, head, body,
                                     Deadline::after(is_long ? 20ms : 1ms));
            return Errc::ok;
        } catch (const Error& error) {
            if (error.code() != Errc::timeout) return error.code();
            patience_ = 200;  // it would be refused once more, in the same time
            return Errc::would_block;
        }
    return coin(2) ? connection_.try_batch(text.channel, head, body, text.kind)
                   : connection_.try_send(text.channel, head, body, text.kind);
}

void Talk::send() {
    if (patience_ != 0) --patience_;
    if (id_ == kUnknown || received_[kProgram] == 0 || patience_ != 0) return;
    const Text text(next(kProgram));
    if (text.is_mark() && !write_mark(text)) return;
    const Errc error = post(text);
    // The handlers of a wait may have ended nothing, but answered.
    if (error == Errc::ok) {
        marked_ += text.is_mark() ? 1u : 0u;
        is_written_ = false;
        return accepted(kProgram);
    }
    expect(error == Errc::would_block || error == Errc::peer_lost || place_.plan.may_lose,
           "send: " + std::string(name(error)));
}

void Talk::open_claim() {
    if (id_ == kUnknown || received_[kProgram] == 0) return;
    const bool doomed = coin(4);
    const Text text(next(kProgram));
    if (!doomed && (text.bytes.size() > connection_.max_message_bytes() ||
                    (text.is_mark() && !write_mark(text))))
        return;
    std::size_t bytes = text.bytes.size() + place_.random() % 64;
    bytes = std::min(bytes, connection_.max_message_bytes());
    Claim claim;
    const Errc error = connection_.try_claim(text.channel, bytes, claim, text.kind);
    if (error != Errc::ok) return;
    // Even one that is not sent may be filled.
    std::ranges::copy(std::span(text.bytes).first(std::min(bytes, text.bytes.size())),
                      claim.bytes().begin());
    claims_.push_back({std::move(claim), text.name, doomed});
    if (doomed) return;
    marked_ += text.is_mark() ? 1u : 0u;
    is_written_ = false;
    accepted(kProgram);
}

void Talk::commit(Open& open) {
    const std::size_t bytes = Text(open.name).bytes.size();
    const Errc error = open.claim.commit(bytes);
    expect(error != Errc::would_block && error != Errc::invalid_argument, "commit");
    if (error != Errc::ok) ++refused_;
}

void Talk::close_claim() {
    if (claims_.empty()) return;
    const auto at = claims_.begin() + static_cast<std::ptrdiff_t>(place_.random() % claims_.size());
    if (!at->doomed) commit(*at);
    claims_.erase(at);
}

void Talk::answer() {
    for (; to_answer_ != 0; --to_answer_) {
        const Text text(next(kReply));
        if (connection_.try_send(text.channel, text.bytes, {}, text.kind) != Errc::ok) return;
        accepted(kReply);
    }
}

bool Talk::finish_sending() {
    while (!claims_.empty()) close_claim();
    answer();
    look_at_remote();
    return to_answer_ == 0 && remote_.is_idle();
}

void Talk::use_remote() {
    if (!has_met()) return;
    look_at_remote();
    remote_.start(connection_, place_.random);
}

void Talk::look_at_remote() {
    if (remote_.is_idle()) return;
    const Remote::Outcome outcome = remote_.look(connection_);
    place_.ledger.remote += outcome.done;
    expect(outcome.wrong.empty(), outcome.wrong);
    // A peer that closes ends what it lent, and has said before that it leaves.
    expect(outcome.failed == Errc::ok || may_end(),
           "a read or an addition: " + std::string(name(outcome.failed)));
}

void Talk::move_to(const Lane& lane) {
    try {
        connection_.move_to(lane);
        ++place_.ledger.moves;
    } catch (const Error& error) {
        expect(may_end() && error.code() != Errc::invalid_argument, error.what());
    }
}

// ---- receiving ----

void Talk::take(Message& message) {
    ++place_.ledger.progress[place_.side];
    ++place_.ledger.messages;
    if (received_[kProgram] == 0) {
        meet(message);
        received_[kProgram] = 1;
    } else {
        const Stream stream = message.channel() == kSenderChannel  ? kSender
                              : message.channel() == kReplyChannel ? kReply
                                                                   : kProgram;
        const auto from = static_cast<std::uint8_t>(1 - place_.side);
        Held held{std::move(message), {id_, from, stream, received_[stream]++}};
        const Text text(held.name);
        expect(held.message.channel() == text.channel && held.message.kind() == text.kind &&
                   text.is(held.message.payload()),
               "not the next message, " + to_text(held.name));
        if (text.is_mark()) check_mark(text);
        if (text.channel == kAsking && stream == kProgram) ++to_answer_, answer();
        if (held_.size() < 64 && coin(20)) held_.push_back(std::move(held));
    }
    if (id_ == kUnknown) return;
    for (std::size_t i = 0; i < kStreams; ++i) entry().received[place_.side][i] = received_[i];
}

void Talk::check_mark(const Text& text) {
    if (!lends()) return;
    const std::vector<std::byte> bytes = text.written();
    const std::size_t at = marks_seen_++ % kMarkSlots * kMarkBytes;
    expect(std::ranges::equal(bytes, std::span(lent_.get() + at, bytes.size())),
           "a write is not there before its message, " + to_text(text.name));
    entry().marks[place_.side] = marks_seen_;
}

bool Talk::receive(int most) {
    for (; most != 0; --most) {
        Message message;
        const Errc error = connection_.try_receive(message);
        if (error == Errc::would_block) return true;
        if (error != Errc::ok) return false;
        take(message);
    }
    return true;
}

void Talk::check(Place& place, const Held& held) {
    if (Text(held.name).is(held.message.payload()) || place.failed) return;
    place.failed = true;
    place.ledger.stop = true;
    ADD_FAILURE() << "a message changed while it was held, " << to_text(held.name) << ": seed "
                  << place.plan.seed;
}

void Talk::release(std::size_t most) {
    for (; most != 0 && !held_.empty(); --most) {
        std::swap(held_[place_.random() % held_.size()], held_.back());
        check(place_, held_.back());
        held_.pop_back();
    }
}

bool Talk::has_settled() const {
    if (id_ == kUnknown) return false;
    const Entry& both = entry();
    for (std::size_t i = 0; i < kStreams; ++i)
        if (both.received[0][i] != both.accepted[1][i] ||
            both.received[1][i] != both.accepted[0][i])
            return false;
    return to_answer_ == 0;
}

bool Talk::awaits_message() const {
    for (std::size_t i = 0; i < kStreams; ++i)
        if (received_[i] != entry().accepted[1 - place_.side][i]) return true;
    return false;
}

// ---- ends ----

void Talk::check_end() {
    // The poll that tells of the end may be the next one.
    for (int i = 0; i < 1000 && ends_ == 0; ++i) (void)connection_.progress();
    expect(ends_ == 1, "on_end was called " + std::to_string(ends_) + " times");
    const bool closed = connection_.peer_closed();
    if (id_ == kUnknown) return expect(!closed, "nothing came before a clean close");
    const auto from = static_cast<std::size_t>(1 - place_.side);
    expect(closed || place_.plan.may_lose, "a loss without a fault");
    expect(!closed || entry().left[from] != kStays, "a close that nobody made");
    for (std::size_t i = 0; i < kStreams; ++i) {
        const std::uint64_t accepted = entry().accepted[from][i];
        const bool is_whole = received_[i] == accepted || (i == kSender && received_[i] < accepted);
        expect(closed ? is_whole : received_[i] <= accepted + 1,
               "received " + std::to_string(received_[i]) + " of " + std::to_string(accepted) +
                   " of stream " + std::to_string(i));
    }
    // Claims that are open, or were closed behind the end, were numbered and are no messages.
    const auto open = std::ranges::count_if(claims_, [](const Open& one) { return !one.doomed; });
    if (!connection_.peer_took_all()) return;
    const std::uint64_t taken = entry().received[from][kProgram];
    expect(taken + static_cast<std::uint64_t>(open) + refused_ == sent_[kProgram],
           "the peer took " + std::to_string(taken) + " of " + std::to_string(sent_[kProgram]) +
               ", and " + std::to_string(open) + " claims are open");
}

void Talk::leave(std::vector<Held>& kept) {
    while (!claims_.empty() && coin(8)) close_claim();
    // What is doomed may end with the connection, or behind it.
    for (Open& open : claims_)
        if (!open.doomed) commit(open);
    const bool clean = connection_.state() == Errc::ok;
    if (id_ != kUnknown) entry().left[place_.side] = clean ? kClosed : kBroken;
    for (Held& held : held_)
        if (coin(2)) kept.push_back(std::move(held));
    { const Connection ended = std::move(connection_); }
}

}  // namespace verbatim::test::soak
