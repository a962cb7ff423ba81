// A memory window of the software NIC: a key of the device's table.
#pragma once

#include <memory>

#include <verbatim/driver/device.hpp>

#include "device.hpp"

namespace verbatim::softnic {

class Window final : public MemoryWindow {
  public:
    Window(std::shared_ptr<DeviceCore> core, WindowType type) : core_(std::move(core)) {
        key_ = core_->keys().add_window(type);
    }
    ~Window() override {
        if (!core_->inherited()) core_->keys().remove_window(key_);
    }

  private:
    std::shared_ptr<DeviceCore> core_;
};

}  // namespace verbatim::softnic
