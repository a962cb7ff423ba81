// The receiver of one graph, and how long both sides wait for each other.
#include <algorithm>

#include <fmt/format.h>

#include <verbatim/core/config.hpp>
#include <verbatim/objects/operations/transfer.hpp>

#include "object_link.hpp"

namespace verbatim::objects {
namespace {

// "root Point" is the second line of a layout.
std::string_view root_of(std::string_view layout) noexcept {
    constexpr std::string_view kRoot = "\nroot ";
    const std::size_t at = layout.find(kRoot);
    if (at == std::string_view::npos) return "another type";
    layout.remove_prefix(at + kRoot.size());
    return layout.substr(0, layout.find('\n'));
}

}  // namespace

ImageMemory::ImageMemory(std::shared_ptr<Arena> arena, std::uint64_t bytes, std::size_t alignment)
    : data_(static_cast<std::byte*>(arena->allocate(bytes, alignment))), bytes_(bytes) {
    arena_ = std::move(arena);
}

void ImageMemory::release() noexcept { arena_->deallocate(data_, bytes_, kEagerAlignment); }

Inbound::Inbound(Connection& connection, const RootType& root, std::uint16_t channel)
    : connection_(connection), root_(root), channel_(channel) {
    link_ = object_link(connection);
}

Inbound::~Inbound() {
    leave();
    if (tables_) link_->give_back(std::move(tables_));
}

void Inbound::leave() noexcept {
    if (arrival_ == nullptr) return;
    link_->incoming().arrivals().unclaim(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
}

bool Inbound::look() {
    Arrivals& arrivals = link_->incoming().arrivals();
    if (arrival_ == nullptr) arrival_ = arrivals.claim(channel_, this);
    if (arrival_ == nullptr || !arrival_->is_whole) {
        link_->pump(connection_);
        if (arrival_ == nullptr) arrival_ = arrivals.claim(channel_, this);
    }
    if (arrival_ != nullptr && arrival_->is_settled) leave();  // its sender has cancelled it
    if (arrival_ == nullptr || (!arrival_->is_whole && !arrival_->error)) {
        if (connection_.state() != Errc::ok) connection_.check();
        if (arrival_ == nullptr) return false;
    }
    if (arrival_->error) {
        const Error error = *arrival_->error;
        arrivals.finish(*std::exchange(arrival_, nullptr));
        is_checked_ = false;
        throw Error(error);
    }
    if (!is_checked_) check_type();
    return arrival_->has_news;
}

void Inbound::check_type() {
    const Layout& ours = root_.layout;
    is_checked_ = true;
    if (arrival_->fingerprint == ours.fingerprint) {
        if (!arrival_->is_eager || root_.alignment <= kEagerAlignment) return;
        const Error error(Errc::corrupt_message, "received graph",
                          "its objects are aligned too widely for a graph in one message",
                          "the graph was dropped; nothing of it was handed out");
        drop(error);
        throw Error(error);
    }
    const std::string_view theirs = link_->incoming().types().layout(arrival_->fingerprint);
    const std::string_view name = root_of(theirs);
    const Error error(
        Errc::type_mismatch, "type " + root_.info.spelled(),
        name == root_.info.spelled() ? "sender and receiver lay it out differently"
                                     : fmt::format("the sender sends a {}", name),
        first_difference(theirs, ours.text) + "; build both programs from the same definition");
    drop(error);
    throw Error(error);
}

bool Inbound::is_at_once() const noexcept { return arrival_->is_whole && !arrival_->streamed.walk; }
bool Inbound::is_acyclic() const noexcept { return arrival_->is_acyclic; }

MendTables& Inbound::tables() {
    if (!tables_) tables_ = link_->lend_mend();
    return *tables_;
}

Mending& Inbound::walk(MakeWalk make) {
    if (!arrival_->streamed.walk)
        arrival_->streamed.walk = make(link_->lend_mend(), arrival_->is_acyclic);
    return *static_cast<KeptWalk*>(arrival_->streamed.walk.get())->mending;
}

bool Inbound::run(Mending& mending) {
    if (connection_.config().objects.hostile && !arrival_->is_whole) return false;
    arrival_->feed(mending);
    const bool is_done = mending.run();
    return is_done;
}

ImageMemory Inbound::take() {
    ImageMemory memory =
        arrival_->is_eager
            ? std::move(arrival_->eager.block)
            : ImageMemory(std::shared_ptr<void>(std::move(arrival_->streamed.image)));
    if (arrival_->streamed.walk) {
        const auto walk = std::move(arrival_->streamed.walk);
        link_->give_back(std::move(static_cast<KeptWalk*>(walk.get())->tables));
    }
    link_->incoming().arrivals().finish(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
    return memory;
}

void Inbound::drop(const Error& error) {
    link_->incoming().refuse(*arrival_, error);
    link_->incoming().arrivals().finish(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
    link_->settle(connection_);  // its sender may still be at it
}

bool is_readable(Connection& connection, std::uint16_t channel) {
    const auto link = object_link(connection);
    if (link->incoming().arrivals().is_readable(channel)) return true;
    link->pump(connection);
    if (link->incoming().arrivals().is_readable(channel)) return true;
    if (connection.state() != Errc::ok) connection.check();
    return false;
}

void Patience::wait(bool begun) {
    const auto link = object_link(connection_);
    if (const std::uint64_t activity = link->activity(); activity != activity_) {
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
    auto until = std::min(deadline_.when, stalled_.when);
    if (link->incoming().waits_for_memory())
        until = std::min(until, Clock::now() + std::chrono::milliseconds(1));
    connection_.pause(round_++, {until});
}

}  // namespace verbatim::objects
