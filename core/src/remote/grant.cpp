// The public face of a grant.
#include <verbatim/core/grant.hpp>

#include <thread>

#include <fmt/format.h>

#include "../connection/waiting.hpp"

namespace verbatim {
namespace {

using Phase = LentMemory::Phase;

Error would_deadlock() {
    return {Errc::would_deadlock, "grant", "a handler waits for it",
            "use Grant::begin() and is_ready(), end() and has_ended() in handlers"};
}

[[noreturn]] void raise_end(const Connection::Impl& impl) {
    impl.check();
    throw Error(impl.has_ended() ? impl.why_ended() : Errc::peer_lost,
                "connection to " + impl.channel.name(), "it has ended", "connect again");
}

// The arena of the context that holds `memory`. Throws Error(invalid_argument).
RegionTable& table_of(Context::Impl& context, std::span<const std::byte> memory) {
    if (RegionTable* const table = context.arenas.find(memory.data())) return *table;
    throw Error(Errc::invalid_argument, "grant",
                fmt::format("{} bytes at {} do not lie in an arena of the connection",
                            memory.size(), static_cast<const void*>(memory.data())),
                "allocate what is lent from an arena of the context");
}

// Waits until the device has executed what was accepted, or the connection has failed.
void wait_executed(Connection::Impl& impl) {
    SendPath& path = impl.member.path();
    const std::uint64_t last = path.accepted();
    bool asked = false;
    for (unsigned round = 0; path.retired() < last && path.error() == Errc::ok; ++round) {
        asked = asked || path.signal_last() == Errc::ok;
        (void)impl.progress();
        impl.lane->pause(round, Deadline::never());
    }
}

}  // namespace

Grant Grant::begin(Connection& connection, const LocalMemory& local, std::span<std::byte> memory,
                   Access access, GrantTerms terms) {
    Connection::Impl& impl = *connection.impl_;
    const auto guard = enter(impl);  // lending may let go what ends it
    if (impl.has_ended()) raise_end(impl);
    Grant grant;
    grant.lent_ = impl.grants.lend(local, memory, access, std::move(terms));
    return grant;
}

Grant Grant::begin(Connection& connection, std::span<std::byte> memory, Access access,
                   std::shared_ptr<void> owner, EndNotice notice) {
    const Connection::Impl::Use impl(*connection.impl_);  // lending may let go what ends it
    const LocalMemory local(table_of(*impl->context, memory));
    return begin(connection, local, memory, access, {std::move(owner), notice});
}

Grant::Grant(Connection& connection, std::span<std::byte> memory, Access access,
             std::shared_ptr<void> owner, EndNotice notice)
    : Grant(begin(connection, memory, access, std::move(owner), notice)) {
    wait_open(connection);
}

Grant::Grant(Connection& connection, Registered lease, std::span<std::byte> memory, Access access,
             EndNotice notice)
    : Grant(begin(connection, std::move(lease), memory, access, notice)) {
    wait_open(connection);
}

// In a handler the windows open before the next message: that is not waited for.
void Grant::wait_open(Connection& connection) {
    const Connection::Impl::Use impl(*connection.impl_);  // its polls may end the connection
    const auto guard = impl->lane->enter();
    const bool in_handler = impl->lane->in_handler();
    for (unsigned round = 0; lent_->phase.load(std::memory_order_relaxed) == Phase::opening;
         ++round) {
        if (in_handler) throw would_deadlock();
        (void)impl->progress();
        impl->lane->pause(round, Deadline::never());
    }
    if (!in_handler) wait_executed(*impl.operator->());
    if (!is_ready()) raise_end(*impl.operator->());
}

Grant Grant::begin(Connection& connection, Registered lease, std::span<std::byte> memory,
                   Access access, EndNotice notice) {
    if (memory.empty() || !lease.covers(memory.data(), memory.size()) ||
        !allows(lease.access(), RegistrationCache::kLendable))
        throw Error(Errc::invalid_argument, "grant",
                    fmt::format("{} bytes at {} do not lie under the lease, or it does not allow "
                                "the device to write and to open windows",
                                memory.size(), static_cast<const void*>(memory.data())),
                    "acquire what is lent with RegistrationCache::kLendable");
    const LocalMemory local(*lease.region());
    return begin(connection, local, memory, access,
                 {std::make_shared<Registered>(std::move(lease)), notice});
}

std::span<const RemoteExtent> Grant::extents() const noexcept {
    return lent_ ? std::span<const RemoteExtent>(lent_->extents) : std::span<const RemoteExtent>();
}

bool Grant::is_ready() const noexcept {
    return lent_ && !lent_->is_inherited() &&
           lent_->phase.load(std::memory_order_relaxed) == Phase::open;
}

void Grant::end() noexcept {
    if (lent_ && !lent_->is_inherited() && lent_->grants != nullptr) lent_->grants->end(*lent_);
}

bool Grant::has_ended() const noexcept {
    if (!lent_ || lent_->is_inherited()) return true;
    const Phase phase = lent_->phase.load(std::memory_order_acquire);
    if (phase == Phase::quarantine)
        if (const auto quarantine = lent_->quarantine.lock()) quarantine->sweep();
    return lent_->phase.load(std::memory_order_acquire) == Phase::ended;
}

void Grant::wait_end(Deadline deadline) {
    end();
    for (unsigned round = 0; !has_ended(); ++round) {
        if (deadline.passed(round))
            throw Error(Errc::timeout, "grant",
                        "the memory may still be written: a process of the peer is stopped in the "
                        "middle of a copy",
                        "keep the memory until has_ended()");
        const Grants* const grants = lent_->grants;
        const std::shared_ptr<Lane::Impl> lane = grants != nullptr ? grants->lane() : nullptr;
        if (lane == nullptr) {  // in quarantine
            std::this_thread::yield();
            continue;
        }
        const auto guard = lane->enter();
        if (lane->in_handler()) throw would_deadlock();
        (void)lane->poll();
        lane->pause(round, deadline);
    }
}

}  // namespace verbatim
