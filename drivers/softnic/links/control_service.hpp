// The service behind a control thread: the device that peers ask. Called from the control thread.
#pragma once

#include <cstdint>
#include <string>

#include "../rings/channel.hpp"
#include "link_peer.hpp"

namespace verbatim::softnic {

class ControlService {
  public:
    // The ring into queue pair `to`, for the peer's queue pair `from`. Throws Error: the peer gets
    // its code and text.
    virtual ChannelPlace open_channel(const LinkPeer& peer, std::uint32_t from,
                                      std::uint32_t to) = 0;
    // The session is over: its process ended, or needs this device no more.
    virtual void end_session(std::uint64_t session) = 0;
    // A peer says that queue pair `number` has something to do: for its program, which sleeps; or
    // for the absent poller.
    enum class WakeFor : std::uint8_t { events, turns };
    virtual void wake(std::uint32_t number, WakeFor what) = 0;
    // A link was lost: its queue pairs have something to do.
    virtual void wake_all() = 0;
    // The device in words. Throws Error.
    virtual std::string describe() = 0;

  protected:
    ~ControlService() = default;
};

}  // namespace verbatim::softnic
