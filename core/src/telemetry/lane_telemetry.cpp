// Which connections are written when.
#include "lane_telemetry.hpp"

#include <algorithm>
#include <utility>

namespace verbatim::telemetry {

LaneTelemetry::LaneTelemetry(ContextCounts& context)
    : context_(context), segment_(context.segment()) {
    if (segment_ == nullptr) return;
    slot_ = segment_->take(Section::lanes);
    counts_.id = segment_->next_id(Section::lanes);
    publish({});
}

void LaneTelemetry::add(MemberTelemetry& member) noexcept {
    if (segment_ == nullptr) return;
    if (!std::exchange(member.has_slot, true)) {
        member.slot = segment_->take(Section::connections);
        counts_.not_listed += !member.slot;
    }
    ++members_;
    member.lane = this;
    if (member.times != nullptr) member.times->forget();
    flush(member);
}

void LaneTelemetry::leave(MemberTelemetry& member, bool moves) noexcept {
    if (member.lane != this) return;
    --members_;
    member.lane = nullptr;
    if (std::exchange(member.is_listed, false)) {
        std::erase(news_, &member);
        std::erase(pass_, &member);
    }
    if (moves) return;
    ConnectionCounts counts;
    member.fill(member.owner, counts);
    ++counts_.ended;
    counts_.ended_messages_sent += counts.messages_sent;
    counts_.ended_bytes_sent += counts.bytes_sent;
    counts_.ended_messages_received += counts.messages_received;
    counts_.ended_bytes_received += counts.bytes_received;
    member.slot = {};
}

void LaneTelemetry::flush(MemberTelemetry& member) noexcept {
    ConnectionCounts counts;
    member.is_listed = false;
    if (!member.rest(member.owner)) note(member);
    member.fill(member.owner, counts);
    counts.id = member.id;
    counts.lane = counts_.id;
    member.slot.publish(counts);
    if (member.times != nullptr) member.times->publish();
    ++counts_.flushes;
}

// One that is noted again meanwhile waits for the next pass.
void LaneTelemetry::flush_next() noexcept {
    MemberTelemetry* const member = pass_.back();
    pass_.pop_back();
    flush(*member);
}

void LaneTelemetry::sleeps(const Lane& lane) noexcept {
    if (segment_ == nullptr) return;
    while (!pass_.empty()) flush_next();
    pass_.swap(news_);
    while (!pass_.empty()) flush_next();
    ++counts_.sleeps;
    publish(lane);
    context_.collect(std::chrono::steady_clock::now());
}

void LaneTelemetry::publish(const Lane& lane) noexcept {
    counts_.polls = lane.polls;
    counts_.events = lane.events;
    counts_.connections = lane.connections;
    counts_.polled = lane.polled;
    counts_.flushed_ns =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                       std::chrono::system_clock::now().time_since_epoch())
                                       .count());
    slot_.publish(counts_);
}

}  // namespace verbatim::telemetry
