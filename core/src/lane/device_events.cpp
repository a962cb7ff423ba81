// From the device to the lanes.
#include "device_events.hpp"

#include <utility>

#include <verbatim/driver/log.hpp>

#include "lane_impl.hpp"

namespace verbatim {
namespace {

bool ends_connections(DeviceEventKind kind) noexcept {
    return kind == DeviceEventKind::device_failed || kind == DeviceEventKind::queue_pair_failed ||
           kind == DeviceEventKind::completion_queue_failed;
}

// In the lane's thread.
void apply(Lane::Impl& lane, const DeviceEvent& event) noexcept {
    const bool is_of_queue = event.kind == DeviceEventKind::completion_queue_failed;
    if (is_of_queue && !lane.queue().has(event.number)) return;
    for (QueueUser* const user : lane.queue().all_users()) {
        if (user == nullptr || user->owner() == nullptr) continue;
        if (event.kind == DeviceEventKind::queue_pair_failed && user->number() != event.number)
            continue;
        static_cast<LaneMember*>(user->owner())->fail(Errc::device_error);
    }
}

}  // namespace

void DeviceEvents::add(const std::shared_ptr<Lane::Impl>& lane) {
    const std::lock_guard lock(mutex_);
    std::erase_if(lanes_, [](const auto& one) { return one.expired(); });
    lanes_.push_back(lane);
}

std::string DeviceEvents::last() const {
    const std::lock_guard lock(mutex_);
    return last_;
}

void DeviceEvents::take() noexcept {
    try {
        while (const auto event = device_.take_event()) {
            log::warn("{}", event->text);
            tell(*event);
        }
    } catch (const std::exception& error) {
        log::error("an event of the device was lost: {}", error.what());
    }
}

// A port that went down ends nothing by itself: it may come back before retries end. But it
// explains what ends then.
void DeviceEvents::tell(const DeviceEvent& event) {
    std::vector<std::weak_ptr<Lane::Impl>> lanes;
    {
        const std::lock_guard lock(mutex_);
        if (event.kind == DeviceEventKind::port_down || ends_connections(event.kind))
            last_ = event.text;
        if (event.kind == DeviceEventKind::port_up) last_.clear();
        if (ends_connections(event.kind)) lanes = lanes_;
    }
    for (const auto& one : lanes) {
        const std::shared_ptr<Lane::Impl> lane = one.lock();
        if (lane == nullptr) continue;
        // The task must not keep the lane: it would wait in the lane's own inbox.
        Lane(lane).submit([raw = lane.get(), event]() noexcept { apply(*raw, event); });
    }
}

}  // namespace verbatim
