// Devices and arenas.
#include "context_counts.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace verbatim::telemetry {
namespace {

template <std::size_t kSize>
void put(std::array<char, kSize>& to, std::string_view text) {
    std::copy_n(text.begin(), std::min(text.size(), kSize - 1), to.begin());
}

}  // namespace

ContextCounts::ContextCounts(std::shared_ptr<Segment> segment, RegionTables& arenas,
                             const Device& device, const Config& config) noexcept
    : segment_(std::move(segment)) {
    if (segment_ == nullptr) return;
    try {
        list_device(device, config);
        arenas.for_each([this](const Arena& arena) {
            Listed one{arena, {}, segment_->take(Section::arenas)};
            one.counts.id = segment_->next_id(Section::arenas);
            put(one.counts.name, arena.options().name);
            arenas_.push_back(std::move(one));
        });
    } catch (const std::bad_alloc&) {
        arenas_.clear();
    }
    collect(std::chrono::steady_clock::now());
}

void ContextCounts::list_device(const Device& device, const Config& config) {
    DeviceCounts counts;
    device_ = segment_->take(Section::devices);
    counts.id = segment_->next_id(Section::devices);
    put(counts.name, device.info().name);
    const bool is_soft = std::string_view(device.info().name).starts_with("softnic");
    put(counts.kind, is_soft ? "softnic" : "rdma");
    counts.port = is_soft ? 0 : static_cast<std::uint64_t>(config.device.port);
    device_.publish(counts);
}

void ContextCounts::collect(std::chrono::steady_clock::time_point now) noexcept {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (segment_ == nullptr || !lock.owns_lock() || now < next_) return;
    next_ = now + segment_->config().interval;
    for (Listed& one : arenas_) {
        const ArenaUsage usage = one.arena.usage();
        one.counts.live = usage.allocated_bytes;
        one.counts.populated = usage.populated_bytes;
        one.counts.peak = usage.peak_bytes;
        one.counts.cached = usage.cached_bytes;
        one.counts.reserved = usage.reserved_bytes;
        one.slot.publish(one.counts);
    }
}

}  // namespace verbatim::telemetry
