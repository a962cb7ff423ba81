// The receiver of one graph, and how long both sides wait for each other.
#include <algorithm>

#include <fmt/format.h>

#include <verbatim/core/config.hpp>
#include <verbatim/objects/operations/each.hpp>

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

std::shared_ptr<void> ImageMemory::share() {
    if (bytes_ != 0) {
        auto shared = std::make_shared<ImageMemory>();
        shared->swap(*this);
        held_ = std::move(shared);
    }
    return held_;
}

void ImageMemory::release() noexcept { arena_->deallocate(data_, bytes_, kEagerAlignment); }

Inbound::Inbound(Connection& connection, const RootType& root, std::uint16_t channel)
    : root_(root), channel_(channel), link_(connection) {}

Inbound::~Inbound() {
    leave();
    if (tables_) link_->tables().give_back(std::move(tables_));
}

void Inbound::leave() noexcept {
    if (arrival_ == nullptr) return;
    link_->incoming().arrivals().unclaim(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
}

bool Inbound::has_news() const noexcept {
    if (arrival_ == nullptr) return link_->incoming().arrivals().has_next(channel_);
    return arrival_->has_news || arrival_->is_settled || arrival_->error.has_value();
}

bool Inbound::look() {
    Arrivals& arrivals = link_->incoming().arrivals();
    if (arrival_ == nullptr) arrival_ = arrivals.claim(channel_, this);
    if (arrival_ == nullptr || !arrival_->is_whole) {
        link_->pump_arrived();
        if (arrival_ == nullptr) arrival_ = arrivals.claim(channel_, this);
    }
    if (arrival_ != nullptr && arrival_->is_settled) leave();  // its sender has cancelled it
    if (arrival_ == nullptr || (!arrival_->is_whole && !arrival_->error)) {
        link_->check();
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
bool Inbound::is_acyclic() const noexcept { return arrival_->is_acyclic(); }
bool Inbound::is_composed() const noexcept { return arrival_->is_composed(); }
ComposedMemory Inbound::composed() const {
    return arrival_->is_whole ? arrival_->composed() : ComposedMemory{};
}

bool Inbound::keep(std::shared_ptr<KeptImage>& image) {
    if (image || arrival_->streamed.walk || arrival_->is_composed()) return true;
    if (!arrival_->is_whole) return false;
    auto kept = std::make_shared<KeptImage>();
    kept->root = &root_;
    try {
        arrival_->copy_into(*kept, link_->tables().arena());
    } catch (const Error&) {
        return true;  // the arena has no room
    }
    image = std::move(kept);
    return true;
}

MendTables& Inbound::tables() {
    if (!tables_) tables_ = link_->tables().lend_mend();
    return *tables_;
}

ComposedTables& Inbound::composed_tables() { return link_->tables().composed_received(); }

Mending& Inbound::walk(MakeWalk make) {
    if (!arrival_->streamed.walk)
        arrival_->streamed.walk = make(link_->tables().lend_mend(), arrival_->is_acyclic());
    return *static_cast<KeptWalk*>(arrival_->streamed.walk.get())->mending;
}

bool Inbound::run(Mending& mending) {
    arrival_->feed(mending);
    return mending.run();
}

ImageMemory Inbound::take() {
    ImageMemory memory =
        arrival_->is_eager
            ? std::move(arrival_->eager.block)
            : ImageMemory(std::shared_ptr<void>(std::move(arrival_->streamed.image)));
    if (arrival_->streamed.walk) {
        const auto walk = std::move(arrival_->streamed.walk);
        link_->tables().give_back(std::move(static_cast<KeptWalk*>(walk.get())->tables));
    }
    if (tables_) link_->tables().give_back(std::move(tables_));
    link_->incoming().arrivals().finish(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
    return memory;
}

void Inbound::drop(const Error& error) {
    link_->incoming().refuse(*arrival_, error);
    link_->incoming().arrivals().finish(*std::exchange(arrival_, nullptr));
    is_checked_ = false;
    link_->settle();  // its sender may still be at it
}

bool is_readable(Connection& connection, std::uint16_t channel) {
    const LinkUse link(connection);
    if (link->incoming().arrivals().is_readable(channel)) return true;
    link->pump();
    if (link->incoming().arrivals().is_readable(channel)) return true;
    link->check();
    return false;
}

std::optional<std::uint64_t> next_root(Connection& connection, std::uint16_t channel) {
    const LinkUse link(connection);
    const Arrivals& arrivals = link->incoming().arrivals();
    if (!arrivals.has_next(channel)) link->pump();
    if (const Arrival* const next = arrivals.next(channel)) return next->fingerprint;
    link->check();
    return std::nullopt;
}

void check_series(const SeriesEnd& end, std::uint64_t received) {
    if (!end.is_whole)
        throw Error(Errc::flushed, "elements of send_each",
                    fmt::format("the sender failed after {} of them", end.elements),
                    "see its own error; the connection goes on");
    if (end.elements != received)
        throw Error(Errc::corrupt_message, "elements of send_each",
                    fmt::format("{} were sent and {} received", end.elements, received),
                    "receive the channel in one place");
}

void Patience::fail(Errc code, const std::string& cause, const char* remedy) const {
    throw Error(code, of_ == Of::send ? "send of a graph" : "receive of a graph", cause, remedy);
}

void Patience::wait(bool begun) {
    Connection& connection = link_.here();
    if (const std::uint64_t activity = link_.activity(); activity != activity_) {
        activity_ = activity;
        round_ = 0;
        stalled_ = starved_ = Deadline::never();
    }
    check(begun);
    auto until = std::min({deadline_.when, stalled_.when, starved_.when});
    if (link_.must_settle()) until = std::min(until, Clock::now() + std::chrono::milliseconds(1));
    connection.pause(round_++, {until});
}

void Patience::check(bool begun) {
    const auto& options = link_.here().config().objects;
    const std::string& peer = link_.here().peer_name();
    const bool is_starved = of_ == Of::receive && link_.incoming().is_starved();
    // Runs on while it is so; the other one waits for a peer that could go on.
    const auto keep = [](Deadline& deadline, bool runs, std::chrono::nanoseconds time) {
        if (!runs) deadline = Deadline::never();
        if (runs && deadline.when == Deadline::never().when) deadline = Deadline::after(time);
    };
    keep(starved_, is_starved, options.window_wait);
    keep(stalled_, begun && !is_starved, options.timeout);
    if (deadline_.passed(round_))
        fail(Errc::timeout, fmt::format("the deadline passed while waiting for {}", peer),
             "check that the other side calls receive() or send(), or allow more time");
    if (stalled_.passed(round_))
        fail(Errc::timeout, fmt::format("{} stopped in mid-transfer", peer),
             "close the connection; objects.timeout sets how long to wait");
    if (starved_.passed(round_))
        fail(Errc::out_of_memory,
             "graphs that came before it were not received, and no more of them are kept",
             "receive them, on their channels, or raise max_graph_bytes");
}

}  // namespace verbatim::objects
