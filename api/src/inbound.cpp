// The receiver of one graph, and how long both sides wait for each other.
#include <verbatim/objects/receive.hpp>

#include <algorithm>

#include <fmt/format.h>
#include <xxhash.h>

#include <verbatim/core/config.hpp>

#include "object_link.hpp"

namespace verbatim::objects {
namespace {

// Throws Error(type_mismatch) unless the arrival's root is laid out as `root`.
void check_type(const ObjectLink& link, const Arrival& arrival, const TypeInfo& root) {
    const Layout& ours = layout_of(root);
    if (arrival.offer.fingerprint == ours.fingerprint) return;
    throw Error(Errc::type_mismatch, "type " + root.name,
                arrival.type_name == root.name
                    ? "sender and receiver lay it out differently"
                    : fmt::format("the sender sends a {}", arrival.type_name),
                first_difference(link.told_layout(arrival.offer.fingerprint), ours.text) +
                    "; build both programs from the same definition");
}

Arrived take(Arrival& arrival) {
    return {std::move(*arrival.image), std::move(arrival.metadata), arrival.offer.back_pointers,
            arrival.offer.extensions};
}

bool checksum_holds(const Arrival& arrival) {
    return arrival.offer.has_checksum == 0 ||
           XXH3_64bits(arrival.image->data(), arrival.image->bytes()) == arrival.checksum;
}

}  // namespace

Inbound::Inbound(Connection& connection, const TypeInfo& root)
    : connection_(connection), root_(root) {
    layout_of(root);  // a type that cannot be received is refused before anybody sends one
    link_ = connection.layer<ObjectLink>();
}

Inbound::~Inbound() {
    static_cast<ObjectLink*>(link_.get())
        ->give_back(std::move(tables_), std::move(arrived_.metadata));
}

FixupTables& Inbound::tables() {
    if (!tables_) tables_ = static_cast<ObjectLink*>(link_.get())->lend_tables();
    return *tables_;
}

bool Inbound::step() {
    if (arrived_.image.data() != nullptr) return true;
    ObjectLink& link = object_link(connection_);
    link.pump(connection_, ObjectLink::Role::receiver);
    Arrival* arrival = link.arrival();
    if (arrival == nullptr || !arrival->layout_is_known()) return false;
    if (!arrival->is_granted()) {
        try {
            check_type(link, *arrival, root_);
            link.grant(connection_, *arrival);
        } catch (const Error& error) {
            link.refuse(connection_, *arrival, error);
            throw;
        }
        return false;
    }
    if (!arrival->complete) return false;
    if (!arrival->grant.has_ended()) (void)connection_.progress();
    if (!arrival->grant.has_ended()) return false;
    try {
        check_type(link, *arrival,
                   root_);  // memory may have been lent before the type was asked for
        if (!checksum_holds(*arrival))
            throw Error(Errc::corrupt_message, "received graph",
                        "its checksum does not match its bytes",
                        "the message was dropped; nothing of it was handed out");
        arrived_ = take(*arrival);
    } catch (const Error&) {
        link.drop_arrival();
        throw;
    }
    link.drop_arrival();
    return true;
}

bool Inbound::has_begun() const noexcept { return object_link(connection_).arrival() != nullptr; }

Arrived& Inbound::arrived() noexcept { return arrived_; }

void Patience::wait(bool begun) {
    if (const std::uint64_t activity = object_link(connection_).activity(); activity != activity_) {
        activity_ = activity;
        round_ = 0;
        stalled_ = Deadline::never();
    }
    if (deadline_.passed(round_))
        throw Error(
            Errc::timeout, std::string(what_) + " of a graph",
            fmt::format("the deadline passed while waiting for {}", connection_.peer_name()),
            "check that the other side calls receive() or send(), or allow more time");
    if (begun && stalled_.when == Deadline::never().when)
        stalled_ = Deadline::after(connection_.config().objects.timeout);
    if (begun && stalled_.passed(round_))
        throw Error(Errc::timeout, std::string(what_) + " of a graph",
                    fmt::format("{} stopped in mid-transfer", connection_.peer_name()),
                    "close the connection; objects.timeout sets how long to wait");
    connection_.pause(round_++, {std::min(deadline_.when, stalled_.when)});
}

}  // namespace verbatim::objects
