// Order of what arrives on a connection that carries graphs. Every payload is checked here; what
// does not fit the protocol ends the connection's use with Error(protocol_error).
#include "object_link.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <verbatim/core/config.hpp>

namespace verbatim::objects {
namespace {

// Messages of the application that came before a graph are kept for it.
void handle_messages(Connection& connection) {
    if (connection.handle_all() != Errc::out_of_memory) return;
    throw Error(Errc::out_of_memory, "connection to " + connection.peer_name(),
                "more messages came before a graph than are kept",
                "receive them (receive_message), then go on with the graph");
}

std::size_t message_room(const Connection& connection, std::size_t head) {
    return connection.max_message_bytes() - head;
}

}  // namespace

ObjectLink& object_link(Connection& connection) { return *connection.layer<ObjectLink>(); }

ScanLease::ScanLease(Connection& connection) {
    const auto link = connection.layer<ObjectLink>();
    link_ = link;
    scan_ = link->lend_scan();
}

ScanLease::~ScanLease() { static_cast<ObjectLink*>(link_.get())->give_back(std::move(scan_)); }

ImageMemory::ImageMemory(std::shared_ptr<Arena> arena, std::uint64_t bytes)
    : arena_(std::move(arena)) {
    try {
        // Page-aligned, so that any alignment inside the image holds.
        data_ = static_cast<std::byte*>(arena_->allocate(bytes, 4096));
        bytes_ = bytes;
    } catch (const std::exception& failure) {
        const ArenaUsage usage = arena_->usage();
        throw Error(Errc::graph_too_large, "receiver's arena",
                    fmt::format("the graph needs {} bytes, the arena has {} of {} in use ({})",
                                bytes, usage.allocated_bytes, usage.reserved_bytes, failure.what()),
                    "release received graphs, or raise max_bytes in the receiver's section "
                    "[receive_arena]");
    }
}

ImageMemory::~ImageMemory() {
    if (data_ != nullptr) arena_->deallocate(data_, bytes_, 4096);
}

ObjectLink::ObjectLink(Connection& connection)
    : arena_(connection.arena_ptr()), staging_bytes_(connection.config().objects.staging_bytes) {}

ObjectLink::~ObjectLink() {
    if (staging_ != nullptr) arena_->deallocate(staging_, staging_bytes_, 4096);
}

std::byte* ObjectLink::staging() {
    if (staging_ == nullptr)
        staging_ = static_cast<std::byte*>(arena_->allocate(staging_bytes_, 4096));
    return staging_;
}

void ObjectLink::give_back(std::unique_ptr<FixupTables> tables,
                           std::vector<std::byte> metadata) noexcept {
    if (tables) tables_ = std::move(tables);
    if (metadata.capacity() > spare_metadata_.capacity()) spare_metadata_ = std::move(metadata);
}

void ObjectLink::pump(Connection& connection, Role role) {
    send_pending(connection);
    take_held();
    handle_messages(connection);
    if (const Errc state = connection.progress(); state != Errc::ok && must_tell_end(role))
        connection.check();
    if (broken_ != nullptr) protocol_error(broken_);
}

// While the peer does not take our answers, its messages stay in the ring, which then fills.
void ObjectLink::receive(Message& message) noexcept try {
    held_.push_back(std::move(message));
    take_held();
} catch (const std::exception&) {
    broken_ = "a message that no memory was left for";
}

void ObjectLink::take_held() noexcept try {
    while (pending_.size() < kMaxPending && !held_.empty()) {
        const Message message = std::move(held_.front());
        held_.pop_front();
        if (broken_ != nullptr) continue;
        take(message);
        note_activity();
    }
} catch (const Error&) {  // protocol_error() keeps the reason
} catch (const std::exception&) {
    broken_ = "a message that no memory was left for";
}

void ObjectLink::protocol_error(const char* what) {
    broken_ = what;
    throw Error(Errc::protocol_error, "object link", what,
                "the peer runs another version or is broken; close the connection");
}

void ObjectLink::take(const Message& message) {
    switch (message.kind()) {
        case wire::kOffer:
            return take_offer(message.payload());
        case wire::kGrant:
            return take_grant(message.payload());
        case wire::kRefusal:
            return take_refusal(message.payload());
        case wire::kBytes:
            return take_bytes(message.payload());
        case wire::kEnd:
            return take_end(message.payload());
        case wire::kCancel:
            return take_cancel(message.payload());
        default:
            protocol_error("a message of unknown kind");
    }
}

void ObjectLink::take_offer(std::span<const std::byte> payload) {
    Arrival arrival;
    wire::Offer& offer = arrival.offer;
    if (!wire::parse(payload, offer) || payload.size() != offer.name_bytes ||
        offer.name_bytes > wire::kMaxNameBytes)
        protocol_error("an offer of the wrong length");
    // Every reference occupies 8 bytes of the image at least, and each adds at most one entry (the
    // root one more).
    const std::uint64_t references = offer.image_bytes / 8 + 1;
    if (offer.id != offers_seen_ + 1 || offer.layout_bytes > wire::kMaxLayoutBytes ||
        offer.image_bytes == 0 || offer.back_pointers > references || offer.extensions > references)
        protocol_error("an offer that contradicts itself");
    if (arrivals_.size() - whole_arrivals() >= wire::kMaxOffers)
        protocol_error("more graphs at once than a sender may announce");
    offers_seen_ = offer.id;
    arrival.type_name.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    arrival.metadata = std::exchange(spare_metadata_, {});
    arrival.metadata.clear();
    arrivals_.push_back(std::move(arrival));
}

void ObjectLink::take_grant(std::span<const std::byte> payload) {
    wire::Grant grant;
    if (!wire::parse(payload, grant) || payload.size() != grant.extents * sizeof(RemoteExtent))
        protocol_error("a grant of the wrong length");
    if (grant.id != offers_ || answer_.state == Answer::State::refused)
        return;  // of a cancelled graph
    for (std::uint32_t i = 0; i < grant.extents; ++i) {
        RemoteExtent extent;
        if (!wire::parse(payload, extent) || extent.bytes == 0) protocol_error("an empty extent");
        answer_.extents.push_back(extent);
    }
    answer_.state = grant.is_last != 0 ? Answer::State::granted : Answer::State::partial;
}

void ObjectLink::take_refusal(std::span<const std::byte> payload) {
    wire::Refusal refusal;
    if (!wire::parse(payload, refusal) || payload.size() != refusal.text_bytes)
        protocol_error("a refusal of the wrong length");
    if (refusal.id != offers_) return;
    answer_.state = Answer::State::refused;
    answer_.code = static_cast<Errc>(refusal.code);
    if (refusal.code > 0xff || scope_of(answer_.code) != Scope::request)
        answer_.code = Errc::protocol_error;
    answer_.reason.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
}

void ObjectLink::take_bytes(std::span<const std::byte> payload) {
    wire::Bytes head;
    if (!wire::parse(payload, head)) protocol_error("bytes without a head");
    Arrival* arrival = find(head.id);
    if (arrival == nullptr || arrival->complete) protocol_error("bytes of no graph");
    const std::uint64_t wanted = arrival->offer.layout_bytes - arrival->layout.size();
    const auto layout = payload.first(std::min<std::uint64_t>(wanted, payload.size()));
    arrival->layout.append(reinterpret_cast<const char*>(layout.data()), layout.size());
    if (arrival->layout_is_known() && !layout.empty())
        layouts_.keep(arrival->offer.fingerprint, arrival->layout);
    payload = payload.subspan(layout.size());
    // The arena has to lend the image first, which bounds what the metadata may claim.
    if (!payload.empty() && !arrival->is_granted())
        protocol_error("metadata of a graph that no memory was lent for");
    if (payload.size() > arrival->metadata_bytes() - arrival->metadata.size())
        protocol_error("more metadata than announced");
    if (arrival->is_granted()) arrival->metadata.reserve(arrival->metadata_bytes());
    arrival->metadata.insert(arrival->metadata.end(), payload.begin(), payload.end());
}

void ObjectLink::take_end(std::span<const std::byte> payload) {
    wire::End end;
    if (!wire::parse(payload, end) || !payload.empty())
        protocol_error("an end of the wrong length");
    Arrival* arrival = find(end.id);
    if (arrival == nullptr || !arrival->is_granted() ||
        arrival->metadata.size() != arrival->metadata_bytes())
        protocol_error("an end before the graph was whole");
    arrival->complete = true;
    arrival->checksum = end.checksum;
    arrival->grant.end();  // what is read must not change any more
}

void ObjectLink::take_cancel(std::span<const std::byte> payload) {
    wire::Cancel cancel;
    if (!wire::parse(payload, cancel) || !payload.empty()) protocol_error("a wrong cancellation");
    std::erase_if(arrivals_,
                  [&](const Arrival& a) { return a.offer.id == cancel.id && !a.complete; });
}

Arrival* ObjectLink::find(std::uint64_t id) noexcept {
    const auto at = std::find_if(arrivals_.begin(), arrivals_.end(),
                                 [&](const Arrival& a) { return a.offer.id == id; });
    return at == arrivals_.end() ? nullptr : &*at;
}

std::size_t ObjectLink::whole_arrivals() const noexcept {
    return static_cast<std::size_t>(std::count_if(arrivals_.begin(), arrivals_.end(),
                                                  [](const Arrival& a) { return a.complete; }));
}

void ObjectLink::drop_arrival() { arrivals_.pop_front(); }

void ObjectLink::grant(Connection& connection, Arrival& arrival) {
    auto image =
        std::make_shared<ImageMemory>(connection.receive_arena_ptr(), arrival.offer.image_bytes);
    try {
        arrival.grant = Grant::begin(connection, {image->data(), image->bytes()},
                                     Access::remote_write, image, EndNotice::none);
    } catch (const Error& error) {
        if (connection.state() != Errc::ok || scope_of(error.code()) == Scope::request) throw;
        throw Error(Errc::graph_too_large, "receiver", error.cause(), error.remedy());
    }
    arrival.image = std::move(image);
    send_pending(connection);
}

void ObjectLink::grant_waiting(Connection& connection) {
    for (std::size_t i = 0; i < std::min(arrivals_.size(), kMaxWhole);) {
        Arrival& arrival = arrivals_[i];
        try {
            if (!arrival.is_granted() && arrival.layout_is_known()) grant(connection, arrival);
            ++i;
        } catch (const Error& error) {
            refuse(connection, arrival, error);
        }
    }
}

void ObjectLink::refuse(Connection& connection, Arrival& arrival, const Error& error) {
    std::string reason = error.what();
    reason.resize(std::min(reason.size(), message_room(connection, sizeof(wire::Refusal))));
    const wire::Refusal head{arrival.offer.id, static_cast<std::uint32_t>(error.code()),
                             static_cast<std::uint32_t>(reason.size())};
    Pending pending{wire::kRefusal, {}};
    const auto bytes = wire::bytes_of(head);
    pending.payload.assign(bytes.begin(), bytes.end());
    const auto text = std::as_bytes(std::span(reason));
    pending.payload.insert(pending.payload.end(), text.begin(), text.end());
    pending_.push_back(std::move(pending));
    std::erase_if(arrivals_, [&](const Arrival& a) { return &a == &arrival; });
    send_pending(connection);
}

void ObjectLink::cancel(Connection& connection, std::uint64_t id) noexcept {
    try {
        const wire::Cancel head{id};
        const auto bytes = wire::bytes_of(head);
        pending_.push_back({wire::kCancel, {bytes.begin(), bytes.end()}});
        send_pending(connection);
    } catch (...) {
        // Out of memory, or the connection ended: then the peer drops the graph with the
        // connection.
    }
}

void ObjectLink::send_pending(Connection& connection) {
    while (!pending_.empty()) {
        const Pending& next = pending_.front();
        const Errc code = LayerChannel::try_send(connection, kChannel, next.payload, {}, next.kind);
        if (code == Errc::would_block) return;
        if (code != Errc::ok) return pending_.clear();  // the connection is over
        pending_.pop_front();
    }
    for (Arrival& arrival : arrivals_)
        if (!send_grants(connection, arrival)) return;
}

// False if the ring is full, or the send queue, so that the grant is not ready.
bool ObjectLink::send_grants(Connection& connection, Arrival& arrival) {
    const std::size_t room = message_room(connection, sizeof(wire::Grant)) / sizeof(RemoteExtent);
    const std::span all = arrival.grant.extents();
    if (arrival.extents_sent < all.size() && !arrival.grant.is_ready()) return false;
    while (arrival.extents_sent < all.size()) {
        const std::size_t count = std::min(room, all.size() - arrival.extents_sent);
        const wire::Grant head{arrival.offer.id, static_cast<std::uint32_t>(count),
                               arrival.extents_sent + count == all.size()};
        const std::span extents = all.subspan(arrival.extents_sent, count);
        if (LayerChannel::try_send(connection, kChannel, wire::bytes_of(head),
                                   std::as_bytes(extents), wire::kGrant) != Errc::ok)
            return false;
        arrival.extents_sent += count;
    }
    return true;
}

}  // namespace verbatim::objects
