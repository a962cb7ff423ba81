// What the firmware of a device says: capabilities that libmlx5 asks for by DEVX commands, and
// those that verbs shows. Threads: any.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstdint>

#include <verbatim/uverbs/uverbs.hpp>

#include "method.hpp"

namespace verbatim::uverbs {

class Firmware {
  public:
    // With the traits of new devices.
    Firmware() noexcept;

    const DeviceTraits& traits() const noexcept { return traits_; }
    // 0 or an errno; EPROTONOSUPPORT: no question for the firmware.
    int answer(Method& method) const noexcept;
    // What is limited of the facts of a device.
    void limit(ib_uverbs_query_device_resp& facts) const noexcept;
    // Whether a queue pair may have these access flags.
    bool allows(std::uint32_t access) const noexcept;

  private:
    int general(Method& method) const noexcept;
    int query_queue_pair(Method& method) const noexcept;

    const DeviceTraits traits_;
};

}  // namespace verbatim::uverbs
