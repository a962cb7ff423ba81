// What a connection tells telemetry: its counts, and whether more is to come.
// Threads: the lane's. No allocation, lock or system call, but in begin_telemetry().
#include <algorithm>
#include <string_view>

#include <verbatim/core/telemetry.hpp>

#include "../connection/connection_impl.hpp"
#include "../connection/waiting.hpp"

namespace verbatim {
namespace {

using telemetry::ConnectionCounts;
using telemetry::MemberTelemetry;
using Impl = Connection::Impl;

template <std::size_t kSize>
void put_text(std::array<char, kSize>& to, std::string_view text) noexcept {
    std::copy_n(text.begin(), std::min(text.size(), kSize - 1), to.begin());
}

// Whole messages: those of their own, in batches and in claims, and long ones.
void count_sent(Impl& impl, ConnectionCounts& counts) noexcept {
    const SendCounts& sent = impl.member.ring().sender().counts();
    counts.records_sent = sent.records + sent.claims + sent.batches;
    counts.batches_sent = sent.batches;
    counts.batched_messages = sent.batched;
    counts.fragments_sent = sent.fragments;
    counts.pads_sent = sent.pads;
    counts.credits_sent = sent.credits;
    counts.would_block = sent.would_block;
    counts.messages_sent = sent.records + sent.claims - sent.fragments - sent.ended_keys +
                           sent.fragmented + sent.batched;
    counts.bytes_sent = sent.record_bytes + sent.claimed_bytes + sent.batched_bytes -
                        sent.fragments * sizeof(FragmentHead) - sent.ended_key_bytes;
}

void count_requests(Impl& impl, ConnectionCounts& counts) noexcept {
    SendPath& path = impl.member.path();
    counts.queue_pair = path.user().number();
    counts.requests_posted = path.accepted();
    counts.requests_retired = path.retired();
    counts.requests_failed = path.user().failed();
    const OneSidedCounts& one_sided = impl.one_sided.counts();
    counts.reads = one_sided.reads;
    counts.writes = one_sided.writes;
    counts.atomics = one_sided.atomics;
    counts.one_sided_bytes = one_sided.bytes;
}

void fill(void* owner, ConnectionCounts& counts) noexcept {
    Impl& impl = *static_cast<Impl*>(owner);
    const RingReceiver& own = impl.member.ring().receiver();
    counts.id = impl.member.telemetry.id;
    put_text(counts.peer, impl.channel.name());
    put_text(counts.transport, impl.member.telemetry.transport);
    count_sent(impl, counts);
    count_requests(impl, counts);
    impl.dispatcher.count(counts);
    counts.wakeups_sent = *impl.member.telemetry.wakeups;
    counts.armings = impl.member.arrival().issued();
    counts.ring_bytes = impl.endpoint->peer().ring_bytes;
    const SendPositions& at = impl.member.ring().sender().at();
    counts.ring_used = at.sent() - at.consumed();
    counts.own_ring_used = own.position() - own.consumed();
}

void watch(void* owner) noexcept {
    Impl& impl = *static_cast<Impl*>(owner);
    impl.member.path().room().watch(impl.member.telemetry);
}

bool rest(void* owner) noexcept {
    watch(owner);
    return !static_cast<Impl*>(owner)->member.path().awaits_completion();
}

void note_post(PostWatch& post) noexcept {
    auto& of = static_cast<MemberTelemetry&>(post);
    of.note();
    if (of.times == nullptr) return;
    SendPath& path = static_cast<Impl*>(of.owner)->member.path();
    RetiredWatch* const timed = of.times->begin(path.accepted() + 1);
    if (timed == nullptr) return;
    path.user().watch(*timed);
    path.signal_next();
}

}  // namespace

void begin_telemetry(Connection::Impl& connection) {
    const auto& segment = connection.context->telemetry.segment();
    MemberTelemetry& of = connection.member.telemetry;
    of.owner = &connection;
    of.fill = fill;
    of.rest = rest;
    of.posts = note_post;
    of.transport = connection.endpoint->queue_pair().transport();
    if (segment == nullptr) return;
    of.id = segment->next_id(telemetry::Section::connections);
    if (segment->config().histograms)
        of.times =
            std::make_unique<telemetry::MemberHistograms>(segment, of.id, &connection, watch);
}

telemetry::ConnectionCounts telemetry::counts_of(Connection& connection) noexcept {
    const auto guard = enter(*connection.impl_);
    ConnectionCounts counts;
    fill(connection.impl_.get(), counts);
    if (LaneTelemetry* const lane = connection.impl_->member.telemetry.lane)
        counts.lane = lane->id();
    return counts;
}

}  // namespace verbatim
