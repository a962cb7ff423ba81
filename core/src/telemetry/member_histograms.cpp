// Times of operations and handlers.
#include "member_histograms.hpp"

#include <utility>

namespace verbatim::telemetry {

// What is called in the place of a handler.
struct MemberHistograms::Timed {
    static void call(void* state, Connection& connection, Message& message) noexcept {
        // The handler may end the connection, whose dispatcher lives until it has returned.
        const Timed& timed = *static_cast<const Timed*>(state);
        const Clock::time_point began = Clock::now();
        timed.handler.call(timed.handler.state.get(), connection, message);
        timed.times->record(began);
    }
    ChannelHandler handler;
    std::shared_ptr<Measured> times;
};

MemberHistograms::Measured::Measured(Segment& segment, std::uint64_t connection,
                                     std::uint64_t channel)
    : slot(segment.take(Section::histograms)) {
    named.id = segment.next_id(Section::histograms);
    named.connection = connection;
    named.channel = channel;
}

void MemberHistograms::Measured::record(Clock::time_point since) noexcept {
    const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - since);
    named.times.record(static_cast<std::uint64_t>(time.count()));
    has_news = true;
}

MemberHistograms::MemberHistograms(std::shared_ptr<Segment> segment, std::uint64_t connection,
                                   void* owner, void (*done)(void* owner) noexcept)
    : RetiredWatch{kNone, operation_retired},
      segment_(std::move(segment)),
      connection_(connection),
      owner_(owner),
      done_(done),
      all_{std::make_shared<Measured>(*segment_, connection, kOtherChannels)} {}

ChannelHandler MemberHistograms::wrap(std::uint8_t channel, ChannelHandler handler) {
    auto times = std::make_shared<Measured>(*segment_, connection_, channel);
    all_.push_back(times);
    return {Timed::call, std::make_shared<Timed>(Timed{std::move(handler), std::move(times)})};
}

RetiredWatch* MemberHistograms::begin(std::uint64_t request) noexcept {
    if (number != kNone) return nullptr;
    number = request;
    began_ = Clock::now();
    return this;
}

void MemberHistograms::operation_retired(RetiredWatch& watch, bool failed) noexcept {
    auto& self = static_cast<MemberHistograms&>(watch);
    if (std::exchange(self.number, kNone) == kNone) return;
    if (!failed) self.all_.front()->record(self.began_);
    self.done_(self.owner_);
}

void MemberHistograms::publish() noexcept {
    for (const auto& one : all_)
        if (std::exchange(one->has_news, false)) one->slot.publish(one->named);
}

}  // namespace verbatim::telemetry
