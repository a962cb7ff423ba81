// Device events reach the connections that they concern: each lane watches the device's descriptor,
// one of them takes the event, and all lanes are told. Threads: any. Control path.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <verbatim/core/lane.hpp>
#include <verbatim/driver/device.hpp>

namespace verbatim {

class DeviceEvents {
  public:
    explicit DeviceEvents(Device& device) noexcept : device_(device) {}
    DeviceEvents(const DeviceEvents&) = delete;
    DeviceEvents& operator=(const DeviceEvents&) = delete;

    // -1: the device raises none.
    int file() const noexcept { return device_.event_file(); }
    void add(const std::shared_ptr<Lane::Impl>& lane);
    // Takes what is there. Lanes learn of it by their inboxes.
    void take() noexcept;
    // The last event that may have ended connections, for error messages; empty: none.
    std::string last() const;

  private:
    void tell(const DeviceEvent& event);

    Device& device_;
    mutable std::mutex mutex_;
    std::vector<std::weak_ptr<Lane::Impl>> lanes_;
    std::string last_;
};

}  // namespace verbatim
