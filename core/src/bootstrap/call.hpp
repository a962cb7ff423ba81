// A call is a connection to a listener that is being made, in steps that do not wait. Control path.
// Threads: one at a time.
#pragma once

#include <poll.h>

#include <memory>

#include "address.hpp"
#include "side_channel.hpp"

namespace verbatim {

class Call {
  public:
    virtual ~Call() = default;
    // True: it is connected, and its channel may be taken. Throws Error: connection_refused (with
    // what to check), timeout, protocol_error (taken and hung up), invalid_argument (unknown host),
    // permission_denied.
    virtual bool go_on() = 0;
    // What go_on() waits for; no descriptor: only for a time.
    virtual pollfd waits_for() const noexcept = 0;
    // When it must go on at the latest.
    virtual Deadline wakes_at() const noexcept = 0;
    virtual SideChannel take() = 0;
};

// Of a socket. Not for addresses of the connection manager (ManagerCall).
std::unique_ptr<Call> make_call(const Address& to, Deadline deadline);

}  // namespace verbatim
