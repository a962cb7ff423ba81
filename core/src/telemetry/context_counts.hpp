// The counts of a context itself: its device, and the usage of its arenas, which a lane collects
// with a flush, an interval after the last time at the earliest.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../arena/region_tables.hpp"
#include "segment.hpp"

namespace verbatim::telemetry {

class ContextCounts {
  public:
    // `segment`: null where telemetry is off. The others outlive it.
    ContextCounts(std::shared_ptr<Segment> segment, RegionTables& arenas, const Device& device,
                  const Config& config) noexcept;

    const std::shared_ptr<Segment>& segment() const noexcept { return segment_; }
    // Any thread. Takes the arenas' locks: not on the data path.
    void collect(std::chrono::steady_clock::time_point now) noexcept;

  private:
    void list_device(const Device& device, const Config& config);

    const std::shared_ptr<Segment> segment_;
    Slot device_;
    struct Listed {
        const Arena& arena;
        ArenaCounts counts;
        Slot slot;
    };
    std::vector<Listed> arenas_;
    std::mutex mutex_;  // of the next two, and the slots
    std::chrono::steady_clock::time_point next_{};
};

}  // namespace verbatim::telemetry
