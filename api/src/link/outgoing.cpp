#include "outgoing.hpp"

#include <algorithm>

#include "messages/breach.hpp"

namespace verbatim::objects {
namespace {

// The receiver asks each millisecond; a move of this side does, too.
constexpr std::chrono::milliseconds kWantedFor{50}, kMovingFor{10};

}  // namespace

BounceBuffers::~BounceBuffers() {
    set_retired();
    for (std::size_t i = 0; i < free_count_; ++i) arena_->deallocate(free_[i], kBytes, 4096);
}

std::byte* BounceBuffers::take() {
    if (free_count_ != 0) return free_[--free_count_];
    if (made_ == kMost) return nullptr;
    auto* const buffer = static_cast<std::byte*>(arena_->allocate(kBytes, 4096));
    ++made_;
    return buffer;
}

void BounceBuffers::put(std::byte* buffer) noexcept { under_way_[under_way_count_++] = buffer; }

void BounceBuffers::set_retired() noexcept {
    while (under_way_count_ != 0) free_[free_count_++] = under_way_[--under_way_count_];
}

Outgoing::Outgoing(Connection& connection)
    : buffers(std::make_shared<SentBuffers>(connection.arena_ptr())) {}

void Outgoing::receive(Connection& connection, const Message& message) {
    const std::span payload = message.payload();
    switch (message.kind()) {
        case wire::kLend:
            if (!windows.take_lend(payload)) throw Breach{"memory was lent that cannot be"};
            return;
        case wire::kFree:
            if (!windows.take_free(payload)) throw Breach{"memory was freed that was not in use"};
            return;
        case wire::kRefusal:
            return take_refusal(payload);
        case wire::kReclaim:
            return take_reclaim(connection, payload);
        default:
            throw Breach{"a message of unknown kind"};
    }
}

void Outgoing::take_refusal(std::span<const std::byte> payload) {
    wire::Refusal head;
    if (!wire::parse(payload, head) || payload.size() != head.text_bytes)
        throw Breach{"a refusal of the wrong length"};
    if (std::find(open_.begin(), open_.end(), head.id) == open_.end()) return;  // it has ended
    if (refusal_of(head.id) != nullptr) throw Breach{"a graph was refused twice"};
    auto code = static_cast<Errc>(head.code);
    if (head.code == 0 || head.code > 0xff || scope_of(code) != Scope::request)
        code = Errc::protocol_error;
    refused_.push_back(
        {head.id, code,
         std::string(reinterpret_cast<const char*>(payload.data()), payload.size())});
}

void Outgoing::take_reclaim(Connection& connection, std::span<const std::byte> payload) {
    wire::WindowId head;
    if (!wire::parse(payload, head) || !payload.empty()) throw Breach{"a wrong reclaim"};
    for (TakenSlots* const slots : std::vector(placed_))
        if (slots->window == head.window) unplace(*slots);
    // Else some of it is in use, and the receiver will ask again.
    if (head.flags != wire::kForGood) {
        if (windows.give_back(head.window)) given_back_.push_back({head.window, 0, 0, 0});
    } else if (open_.empty()) {
        give_up(head.window);
    } else if (windows.is_lent(head.window)) {
        hold(kWantedFor);
        hold_.is_wanted = true;
    }
    settle(connection);
}

void Outgoing::hold(std::chrono::milliseconds time) noexcept {
    hold_.is_on = true;
    hold_.until = Deadline::after(time);
}

// The receiver may have dropped it meanwhile: what this side knows of tells it.
void Outgoing::give_up(std::uint32_t window) {
    if (!windows.is_lent(window)) return;
    given_back_.push_back(
        {window, wire::kForGood, static_cast<std::uint32_t>(windows.changes()), 0});
    windows.give_up(window);
}

// Also those that were lent since: the receiver wants all of them, and asks for no other reason.
void Outgoing::give_all() {
    for (TakenSlots* const slots : std::vector(placed_)) unplace(*slots);
    for (std::uint32_t window = 0; window < windows.count(); ++window) give_up(window);
    hold_.is_wanted = false;
}

void Outgoing::end_hold() noexcept {
    if (hold_.is_on && hold_.until.passed()) hold_ = {};
}

bool Outgoing::may_begin() noexcept {
    end_hold();
    return !hold_.is_on && given_back_.empty() && open_.size() < wire::kMaxOpen;
}

bool Outgoing::place(Connection& connection, TakenSlots& slots, std::uint32_t count) {
    placed_.reserve(placed_.size() + 1);
    // Less will do for shorter messages.
    for (std::uint32_t most = count; most != 0 && slots.count == 0; most /= 2)
        (void)windows.take(most, slots);
    if (slots.count != 0) placed_.push_back(&slots);
    if (slots.count == count) return true;
    // For the next message.
    const std::uint64_t changes = windows.changes() + 1;
    if (asked_ != changes &&
        LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(wire::Room{count}), {},
                               wire::kRoom) == Errc::ok)
        asked_ = changes;
    return slots.count != 0;
}

void Outgoing::unplace(TakenSlots& slots) noexcept {
    if (const TakenSlots taken = take_placed(slots); taken.count != 0) windows.untake(taken);
}

TakenSlots Outgoing::take_placed(TakenSlots& slots) noexcept {
    std::erase(placed_, &slots);
    return std::exchange(slots, {});
}

bool Outgoing::withdraw(Connection& connection, bool is_asked) {
    hold(kMovingFor);
    // One that waits for windows may go on doing so behind a move of the receiver. Behind one of
    // this side the receiver would wait for windows that it lends meanwhile.
    if (!open_.empty() && !is_asked) return false;
    asked_ = 0;  // room is lent anew behind the move
    if (open_.empty()) give_all();
    settle(connection);
    return given_back_.empty();
}

void Outgoing::settle(Connection& connection) noexcept {
    end_hold();
    const auto send = [&](std::uint8_t kind, const auto& head) {
        return LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(head), {}, kind) ==
               Errc::ok;
    };
    for (; !cancelled_.empty(); cancelled_.pop_front())
        if (!send(wire::kCancel, wire::GraphId{cancelled_.front()})) return;
    for (; !given_back_.empty(); given_back_.pop_front())
        if (!send(wire::kReturn, given_back_.front())) return;
}

void Outgoing::end(Connection* connection, std::uint64_t id, bool cancelled) noexcept {
    std::erase(open_, id);
    std::erase_if(refused_, [&](const RefusedGraph& refused) { return refused.id == id; });
    if (connection == nullptr) return;
    try {
        if (cancelled) cancelled_.push_back(id);
        if (hold_.is_wanted && open_.empty()) {
            hold(kMovingFor);  // the move follows
            give_all();
        }
    } catch (const std::bad_alloc&) {
        return;  // the receiver keeps what came of it until the connection ends
    }
    settle(*connection);
}

const RefusedGraph* Outgoing::refusal_of(std::uint64_t id) const noexcept {
    for (const RefusedGraph& refused : refused_)
        if (refused.id == id) return &refused;
    return nullptr;
}

bool Outgoing::is_told(std::uint64_t fingerprint) const noexcept {
    return std::find(told_.rbegin(), told_.rend(), fingerprint) != told_.rend();
}

}  // namespace verbatim::objects
