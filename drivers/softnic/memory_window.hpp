// A memory window of the software NIC: a key of the device's table.
#pragma once

#include <memory>

#include <verbatim/driver/device.hpp>

#include "device.hpp"
#include "keys/revocation.hpp"

namespace verbatim::softnic {

class Window final : public MemoryWindow {
  public:
    Window(std::shared_ptr<DeviceCore> core, WindowType type) : core_(std::move(core)) {
        key_ = core_->keys().add_window(type);
    }
    // It may have been open.
    ~Window() override {
        if (core_->inherited()) return;
        core_->keys().remove_window(key_);
        Revocation(core_->keys().accesses()).wait();
    }

  private:
    std::shared_ptr<DeviceCore> core_;
};

}  // namespace verbatim::softnic
