#include "incoming.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include <verbatim/core/config.hpp>

#include "messages/breach.hpp"

namespace verbatim::objects {
namespace {

std::uint64_t most_bytes(const Config::ObjectsSection& options) noexcept {
    return round_to(options.max_graph_bytes, kSegmentBytes);
}

void end_need(Budget& budget, Arrival& arrival) noexcept {
    arrival.want.slots = 0;
    if (arrival.want.ticket != 0) budget.end(std::exchange(arrival.want.ticket, 0));
}

bool wants_slots(const Arrivals& arrivals) noexcept {
    const auto open = arrivals.open();
    return std::any_of(open.begin(), open.end(),
                       [](const Arrival* arrival) { return arrival->want.slots != 0; });
}
// Else the program must receive graphs first.
bool may_lend(const Arrivals& arrivals, const Config::ObjectsSection& options) noexcept {
    return arrivals.waiting_bytes() < options.max_graph_bytes;
}
// Likewise for eager ones, of which `hostile` mode holds copies outside of the arena.
bool may_keep(const Arrivals& arrivals, const Config::ObjectsSection& options) noexcept {
    return arrivals.has_room() && arrivals.eager_bytes() < options.max_graph_bytes;
}

// Memory that is left when windows which nobody uses are asked for: what gives them back comes
// behind all that is in the ring.
std::size_t least_room(const Config& config, const Arena& arena) noexcept {
    const std::size_t all = arena.reserved_bytes();
    return std::min(all / 2, std::max(all / 8, 2 * config.ring.bytes));
}
// Of eager graphs between two looks at what is left.
constexpr std::size_t kLookEvery = std::size_t{64} << 10;

// How many are lent where fewer are missing just now: as many as the graph holds, of a large one
// half as many. If it is known what its rest takes: that, but half of these at least, lest graphs
// that grow bit by bit have a window for each bit.
std::uint64_t welcome_slots(const Arrival& arrival) noexcept {
    constexpr std::uint64_t kLarge = 32;  // 8 MiB
    const std::uint64_t held = arrival.streamed.bases.size();
    const std::uint64_t most = held < kLarge ? held : held / 2;
    return arrival.want.all == 0 ? most : std::clamp(arrival.want.all, most / 2, most);
}

// What an eager graph may be aligned to.
constexpr std::size_t kBlockAlignment = 64;

// Of a wish for room.
std::uint64_t slots_in(std::span<const std::byte> payload) {
    wire::Room head;
    if (!wire::parse(payload, head) || !payload.empty() || head.slots == 0 ||
        head.slots > wire::kMaxSlots)
        throw Breach{"a wrong wish for room"};
    return head.slots;
}
// A window that its sender has given back has nothing to do with messages that are held: all
// bindings to it were taken before its slots were free. One of them may wait for this memory.
bool overtakes_held(const Message& message) noexcept {
    std::span payload = message.payload();
    wire::Return head;
    return message.kind() == wire::kReturn && wire::parse(payload, head) && head.flags == 0;
}
void take_return(LentWindows& lent, std::span<const std::byte> payload, bool any_open) {
    wire::Return head;
    const bool is_good = wire::parse(payload, head) && payload.empty();
    if (!is_good || (head.flags == wire::kForGood && any_open) || !lent.take_back(head))
        throw Breach{"a window came back that is not free"};
}
// The first so many of the payload. False: there are fewer.
template <class Record>
bool take_records(std::span<const std::byte>& payload, std::size_t count,
                  std::vector<Record>& records) {
    if (count == 0) return true;
    if (payload.size() / sizeof(Record) < count) return false;
    const std::size_t before = records.size();
    records.resize(before + count);
    std::memcpy(records.data() + before, payload.data(), count * sizeof(Record));
    payload = payload.subspan(count * sizeof(Record));
    return true;
}

bool is_in_order(const wire::Eager& head) noexcept {
    const std::uint64_t records = std::uint64_t{head.places} + head.arrays;
    return head.image_bytes > 0 && head.image_bytes <= kSegmentBytes &&
           records <= head.image_bytes / 8 + 1;
}

}  // namespace

Incoming::Incoming(Connection& connection)
    : options_(connection.config().objects),
      arena_(connection.receive_arena_ptr()),
      room_{least_room(connection.config(), *arena_), 0},
      budget_(LayerAccess::shared_state<Budget>(connection)),
      lent_(connection, budget_) {}

Incoming::~Incoming() {
    for (Arrival* const arrival : arrivals_.open()) {
        end_need(*budget_, *arrival);
        drop_slots(*arrival);
    }
}

bool Incoming::receive(Message& message) {
    if ((held_.empty() || overtakes_held(message)) && take(message)) return true;
    held_.push_back(std::move(message));
    return false;
}

void Incoming::take_held() {
    while (!held_.empty()) {
        if (!take(held_.front())) return;
        held_.pop_front();
    }
}

// False: there is no room for it now.
bool Incoming::take(const Message& message) {
    const std::span payload = message.payload();
    switch (message.kind()) {
        case wire::kEager:
            return may_keep(arrivals_, options_) && take_eager(payload);
        case wire::kLayout:
            return types_.take_layout(payload), true;
        case wire::kClass:
            return types_.take_class(payload), true;
        case wire::kBegin:
            if (!arrivals_.has_room()) return false;
            return take_begin(payload), true;
        case wire::kFragment:
            return take_fragment(payload), true;
        case wire::kRestart:
            return take_restart(payload), true;
        case wire::kCancel:
            return take_cancel(payload), true;
        case wire::kNeed:
            return take_need(payload), true;
        case wire::kRoom:
            // Copied out, a message has other addresses in any case.
            room_slots_ = options_.hostile ? 0 : slots_in(payload);
            return true;
        case wire::kReturn:
            return take_return(lent_, payload, !arrivals_.open().empty()), true;
        default:
            throw Breach{"a message of unknown kind"};
    }
}

bool Incoming::take_eager(std::span<const std::byte> payload) {
    wire::Eager head;
    if (!wire::parse(payload, head) || !is_in_order(head))
        throw Breach{"a graph that contradicts itself"};
    const std::size_t records =
        head.places * sizeof(PlaceRecord) + head.arrays * sizeof(ArrayRecord);
    if (payload.size() != records + head.image_bytes) throw Breach{"a graph of the wrong length"};
    const std::size_t image = round_to(head.image_bytes, kImageGranule);
    ImageMemory block;
    try {
        if (options_.hostile)
            block = ImageMemory(std::shared_ptr<std::byte>(private_memory(image + records)));
        else
            block = ImageMemory(arena_, image + records, kBlockAlignment);
    } catch (const Error&) {  // until the program releases others, or windows come back
        budget_->ask_lenders();
        return false;
    } catch (const std::bad_alloc&) {
        return false;
    }
    if (!options_.hostile && room_.is_scarce(*arena_, image + records)) budget_->ask_lenders();
    std::memcpy(block.data(), payload.data() + records, head.image_bytes);
    if (records != 0) std::memcpy(block.data() + image, payload.data(), records);
    Arrival& arrival = arrivals_.add(head.id, head.fingerprint);
    arrival.channel = head.channel;
    arrival.flags = head.flags;
    arrival.is_eager = arrival.is_whole = arrival.is_over = arrival.has_news = true;
    arrival.eager.block = std::move(block);
    arrival.eager.image_bytes = head.image_bytes;
    arrival.eager.places = head.places;
    arrival.eager.arrays = head.arrays;
    arrival.unfed.told = {head.image_bytes, head.steps, head.references, true};
    arrivals_.note_whole(arrival);
    return true;
}

bool Incoming::Room::is_scarce(const Arena& arena, std::size_t taken) noexcept {
    unseen += taken;
    if (unseen < kLookEvery) [[likely]]
        return false;
    unseen = 0;
    const ArenaUsage usage = arena.usage();
    return usage.reserved_bytes - usage.allocated_bytes < least;
}

void Incoming::take_begin(std::span<const std::byte> payload) {
    wire::Begin head;
    if (!wire::parse(payload, head) || !payload.empty()) throw Breach{"a wrong beginning"};
    Arrival& arrival = arrivals_.add(head.id, head.fingerprint);
    arrival.channel = head.channel;
    arrival.flags = head.flags;
    arrival.streamed.image = std::make_shared<StreamedImage>();
    arrival.streamed.is_counted = true;
    arrivals_.note_begun(arrival);
}

void Incoming::take_fragment(std::span<const std::byte> payload) {
    wire::Fragment head;
    if (!wire::parse(payload, head)) throw Breach{"a fragment without a head"};
    const std::uint64_t bytes =
        head.bindings * sizeof(wire::Binding) + head.places * sizeof(PlaceRecord) +
        head.arrays * sizeof(ArrayRecord) + head.amendments * sizeof(wire::Amendment);
    if (payload.size() != bytes) throw Breach{"a fragment of the wrong length"};
    Arrival& arrival = arrivals_.open(head.id);
    for (std::uint32_t i = 0; i < head.bindings; ++i) {
        wire::Binding binding;
        if (!wire::parse(payload, binding) || !take_binding(arrival, binding))
            throw Breach{"a segment in memory that is not lent"};
    }
    if (arrival.error) {
        if ((head.flags & wire::kLast) != 0) set_over(arrival);
        return;
    }
    if (head.cursor < arrival.unfed.told.cursor ||
        head.cursor > arrival.streamed.bases.size() * kSegmentBytes)
        throw Breach{"a fragment that contradicts itself"};
    arrival.streamed.records += std::uint64_t{head.places} + head.arrays;
    if (arrival.streamed.records > head.cursor / 8 + 1)
        throw Breach{"more records than references"};
    if (!take_records(payload, head.places, arrival.unfed.places) ||
        !take_records(payload, head.arrays, arrival.unfed.arrays))
        throw Breach{"a record cut short"};
    arrival.streamed.has_excerpts |= (head.flags & wire::kExcerpts) != 0;
    // What is not final yet is copied in the end.
    if (options_.hostile && !arrival.streamed.has_excerpts) arrival.copy_to(head.cursor);
    for (std::uint32_t i = 0; i < head.amendments; ++i) {
        wire::Amendment amendment;
        if (!wire::parse(payload, amendment) || !arrival.amend(amendment))
            throw Breach{"a change of bytes that are not there"};
    }
    take_told(arrival, head);
}

// Also of refused graphs, whose slots go back at once. False: the peer lies.
bool Incoming::take_binding(Arrival& arrival, const wire::Binding& binding) {
    HeldSlots slots;
    if (!lent_.bind(binding, slots)) return false;
    if (arrival.error) {
        lent_.discount(slots.bytes());
        slots.window->release(slots.slot, slots.count);
        return true;
    }
    if (binding.segment != arrival.streamed.bases.size()) return false;
    // Its sender has found room meanwhile, of what was given back; it asks again for more.
    arrival.want.slots = 0;
    arrival.want.until = Deadline::never();
    arrival.streamed.image->slots.push_back(slots);
    const std::uint64_t bytes = slots.bytes();
    std::byte* memory = slots.data();
    if (options_.hostile) {
        for (std::uint64_t at = 0; at < bytes; at += kSegmentBytes)
            arrival.streamed.written.push_back(memory + at);
        memory = arrival.streamed.image->add_copy(bytes);
        if (memory == nullptr) {
            refuse(arrival,
                   Error(Errc::graph_too_large, "receiver",
                         fmt::format("this process has no memory for {} bytes more", bytes),
                         "release other memory of the receiver"));
            return true;
        }
    }
    for (std::uint64_t at = 0; at < bytes; at += kSegmentBytes)
        arrival.streamed.bases.push_back(memory + at);
    arrival.unfed.runs.push_back({binding.segment, memory, bytes});
    if (arrival.streamed.bases.size() * kSegmentBytes > most_bytes(options_))
        refuse(arrival,
               Error(Errc::graph_too_large, "receiver",
                     fmt::format("the graph takes more than {} bytes", options_.max_graph_bytes),
                     "raise max_graph_bytes in the receiver's section [objects]"));
    return true;
}

void Incoming::take_told(Arrival& arrival, const wire::Fragment& head) {
    if ((head.flags & wire::kPartial) != 0) return;
    arrival.unfed.told = {head.cursor, head.steps, head.references,
                          (head.flags & wire::kLast) != 0};
    arrival.note_mark();
    // A hostile peer may change what is not copied yet, by amendments too.
    arrival.has_news = !options_.hostile || arrival.unfed.told.is_last;
    if (!arrival.unfed.told.is_last) return;
    // From here on it counts as the program's.
    lent_.discount(arrival.held_bytes());
    arrival.streamed.is_counted = false;
    arrival.is_whole = true;
    if (options_.hostile) {
        arrival.copy_to(head.cursor);
        arrival.streamed.image->release_slots();
    }
    arrivals_.note_whole(arrival);
    set_over(arrival);
}

void Incoming::take_restart(std::span<const std::byte> payload) {
    wire::GraphId head;
    if (!wire::parse(payload, head) || !payload.empty()) throw Breach{"a wrong restart"};
    Arrival& arrival = arrivals_.open(head.id);
    if (arrival.error) return;
    drop_slots(arrival);
    arrival.forget();
    arrival.streamed.image = std::make_shared<StreamedImage>();
    arrival.streamed.is_counted = true;
    ++arrival.streamed.restarts;
}

void Incoming::take_cancel(std::span<const std::byte> payload) {
    wire::GraphId head;
    if (!wire::parse(payload, head) || !payload.empty()) throw Breach{"a wrong cancellation"};
    Arrival& arrival = arrivals_.open(head.id);
    drop_slots(arrival);
    if (!arrival.error) arrival.is_settled = true;
    set_over(arrival);
}

void Incoming::take_need(std::span<const std::byte> payload) {
    wire::Need head;
    if (!wire::parse(payload, head) || !payload.empty() || head.slots == 0 ||
        head.slots > wire::kMaxSlots || (head.all != 0 && head.all < head.slots) || head.zero != 0)
        throw Breach{"a wrong wish for memory"};
    Arrival& arrival = arrivals_.open(head.id);
    if (arrival.error) return;
    arrival.want.is_informed = head.changes == static_cast<std::uint32_t>(lent_.changes());
    // What it was told meanwhile may be enough; else it asks again. Not for ever: others may be
    // told of much.
    constexpr std::uint32_t kMostOvertaken = 4;
    if (!arrival.want.is_informed && arrival.want.overtaken++ < kMostOvertaken) return;
    arrival.want.slots = head.slots;
    arrival.want.all = head.all;
    if (arrival.want.ticket == 0) arrival.want.ticket = budget_->begin();
}

void Incoming::settle(Connection& connection) {
    if (!send_refusals(connection)) return;
    if (may_lend(arrivals_, options_)) lend(connection);
    lent_.tell(connection);
}

void Incoming::lend(Connection& connection) {
    // Perhaps that is enough: a sender for which it is not asks again.
    if (lent_.hand_back(connection))
        for (Arrival* const arrival : arrivals_.open()) arrival->want.slots = 0;
    for (Arrival* const arrival : arrivals_.open())
        if (arrival->want.slots != 0) serve(connection, *arrival);
    if (room_slots_ != 0 &&
        (connection.state() != Errc::ok || lent_.lend_ahead(connection, room_slots_)))
        room_slots_ = 0;
    if (arrivals_.open().empty() || !held_.empty()) lent_.reclaim(connection);
}

bool Incoming::is_starved() const noexcept {
    if (!held_.empty() && !may_keep(arrivals_, options_)) return true;
    return !may_lend(arrivals_, options_) && wants_slots(arrivals_);
}

bool Incoming::must_settle() const noexcept {
    return wants_slots(arrivals_) || (room_slots_ != 0 && may_lend(arrivals_, options_)) ||
           lent_.has_untold() || !refused_.empty() ||
           (!held_.empty() && may_keep(arrivals_, options_));
}

void Incoming::serve(Connection& connection, Arrival& arrival) try {
    if ((arrival.streamed.bases.size() + arrival.want.slots) * kSegmentBytes > most_bytes(options_))
        throw Error(Errc::graph_too_large, "receiver",
                    fmt::format("the graph takes more than {} bytes", options_.max_graph_bytes),
                    "raise max_graph_bytes in the receiver's section [objects]");
    // Before the attempt: what others release after it may be what is missing.
    const ArenaUsage usage = arena_->usage();
    std::optional<Error> lack;
    const std::uint64_t welcome = welcome_slots(arrival);
    const auto lent = lent_.lend(
        connection, {arrival.want.slots, welcome, budget_->is_oldest(arrival.want.ticket)}, lack);
    if (lent == LentWindows::Lent::yes) {
        arrival.want.slots = 0;
        arrival.want.until = Deadline::never();
    }
    if (lent == LentWindows::Lent::growing) return;
    if (lent != LentWindows::Lent::yes) budget_->ask_lenders();
    if (lent != LentWindows::Lent::no_memory) return;
    // Memory that others may release, or that the peer has and may bind.
    std::uint64_t others = usage.allocated_bytes;
    if (arrival.want.is_informed) others -= std::min(others, lent_.peer_bytes());
    for (const Arrival* const open : arrivals_.open())
        others -= std::min(others, open->held_bytes());
    const bool never_fits = others < arrival.want.slots * kSegmentBytes;
    if (arrival.want.until.when == Deadline::never().when)
        arrival.want.until = Deadline::after(options_.window_wait);
    if (!never_fits && !arrival.want.until.passed()) return;
    throw Error(Errc::graph_too_large, "receiver's arena",
                fmt::format("the graph needs {} bytes more, the arena has {} of {} in use, and: {}",
                            arrival.want.slots * kSegmentBytes, usage.allocated_bytes,
                            usage.reserved_bytes, lack->cause()),
                lack->remedy() + ", or release received graphs");
} catch (const Error& error) {
    // A peer that has said all closes: the rest of the graph is here already.
    if (connection.state() != Errc::ok || scope_of(error.code()) == Scope::connection) return;
    if (scope_of(error.code()) == Scope::request) return refuse(arrival, error);
    refuse(arrival, Error(Errc::graph_too_large, "receiver", error.cause(), error.remedy()));
}

void Incoming::refuse(Arrival& arrival, const Error& error) {
    drop_slots(arrival);
    end_need(*budget_, arrival);
    arrival.streamed.walk.reset();
    if (arrival.is_over) return;
    arrival.error = error;
    arrivals_.note_whole(arrival);
    refused_.push_back({arrival.id, error.code(), error.what()});
}

// False: the ring is full.
bool Incoming::send_refusals(Connection& connection) {
    while (!refused_.empty()) {
        Refused& next = refused_.front();
        next.reason.resize(
            std::min(next.reason.size(), connection.max_message_bytes() - sizeof(wire::Refusal)));
        const wire::Refusal head{next.id, static_cast<std::uint32_t>(next.code),
                                 static_cast<std::uint32_t>(next.reason.size())};
        if (LayerChannel::try_send(connection, wire::kChannel, wire::bytes_of(head),
                                   std::as_bytes(std::span(next.reason)),
                                   wire::kRefusal) != Errc::ok)
            return false;
        refused_.pop_front();
    }
    return true;
}

// The slots of an unfinished graph go back to the peer, or later where a walk is in them.
void Incoming::drop_slots(Arrival& arrival) noexcept {
    if (std::exchange(arrival.streamed.is_counted, false)) lent_.discount(arrival.held_bytes());
    arrival.streamed.image.reset();
}

void Incoming::set_over(Arrival& arrival) noexcept {
    end_need(*budget_, arrival);
    arrivals_.set_over(arrival);
}

}  // namespace verbatim::objects
