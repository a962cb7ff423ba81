// Callers that are shaken hands with.
#include "welcomes.hpp"

#include <algorithm>
#include <utility>

#include <verbatim/driver/log.hpp>

namespace verbatim {

void Welcomes::start(const std::shared_ptr<Context::Impl>& context, LaneOfEndpoint lane,
                     SideChannel channel, const Hello& hello) {
    running_.push_back({{context, std::move(lane), std::move(channel), hello}});
}

void Welcomes::go_on() noexcept {
    std::erase_if(running_, [](One& one) {
        try {
            one.has_met = one.has_met || one.shaking.go_on();
            return false;
        } catch (const Error& error) {  // the caller has been told
            log::warn("refused {}: {}", one.shaking.peer_name(), error.cause());
        } catch (const std::exception& error) {
            log::warn("refused {}: {}", one.shaking.peer_name(), error.what());
        }
        return true;
    });
}

void Welcomes::add_to(WaitList& list) const {
    for (const One& one : running_)
        if (!one.has_met) one.shaking.add_to(list);
}

Clock::time_point Welcomes::may_start(const Lane::Impl* lane) const noexcept {
    std::size_t count = 0;
    auto when = Clock::time_point::min();
    for (const One& one : running_) {
        if (lane != nullptr && one.shaking.lane() != lane) continue;
        if (++count == kMost || (lane != nullptr && one.has_met)) return Clock::time_point::max();
        if (lane != nullptr) when = std::max(when, one.begun + kHeadStart);
    }
    return when;
}

std::optional<Meeting> Welcomes::take(const Lane::Impl* lane) {
    const auto ready = std::find_if(running_.begin(), running_.end(), [&](const One& one) {
        return one.has_met && (lane == nullptr || one.shaking.lane() == lane);
    });
    if (ready == running_.end()) return std::nullopt;
    Meeting taken = ready->shaking.take();
    running_.erase(ready);
    return taken;
}

}  // namespace verbatim
