// What the tcp ports and the udp ports of one device share: the engine thread and the listeners,
// both made when they are first needed. Control path; threads: any.
#pragma once

#include <verbatim/driver/device.hpp>
#include <verbatim/softnic/softnic.hpp>

#include "../event_thread.hpp"
#include "port_choice.hpp"
#include "stream_doors.hpp"

namespace verbatim::softnic {

class StreamService {
  public:
    StreamService(PortKind kind, bool same_user_only)
        : kind_(kind),
          ports_(ports_offered(kind, same_user_only)),
          host_(offered() ? host_name() : HostName{}),
          doors_(thread_) {}

    bool offered() const noexcept { return kind_ != PortKind::shm && !must_have_packets(); }
    bool offers_packets() const noexcept {
        return kind_ == PortKind::automatic || must_have_packets();
    }
    bool must_have_packets() const noexcept {
        return kind_ == PortKind::udp || kind_ == PortKind::dpdk;
    }
    // The ports of this device, and where a stream to the local address arrives. Throws
    // Error(device_error) where tcp is the only port.
    void tell(QueuePairAddress& address, const std::array<std::uint8_t, 16>& local);
    StreamDoors& doors() noexcept { return doors_; }
    EventThread& thread() noexcept { return thread_; }

  private:
    const PortKind kind_;
    const std::uint8_t ports_;
    const HostName host_;  // where the device was opened
    EventThread thread_;
    StreamDoors doors_;
};

}  // namespace verbatim::softnic
