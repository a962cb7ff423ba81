// A TCP call is a connection that is being made, in steps that do not wait: the host's name is
// looked up, then each of its addresses is tried. Control path. Threads: one at a time.
#pragma once

#include <netdb.h>
#include <poll.h>

#include <memory>
#include <optional>

#include "side_thread.hpp"
#include "socket.hpp"

namespace verbatim {

class TcpCall {
  public:
    TcpCall(HostPort to, Deadline deadline);
    // True: it is connected, and socket() may be taken. Throws Error: connection_refused (with what
    // to check), timeout, protocol_error (taken and hung up), invalid_argument (unknown host).
    bool go_on();
    // What go_on() waits for.
    pollfd waits_for() const noexcept;
    Deadline deadline() const noexcept { return deadline_; }
    Descriptor take() noexcept { return std::move(socket_); }

  private:
    bool has_looked_up();
    int begin(const addrinfo& address) noexcept;
    int progress() noexcept;

    HostPort to_;
    Deadline deadline_;
    tcp::AddressList addresses_;
    const addrinfo* next_ = nullptr;  // to be tried
    int error_ = 0;                   // of the last one
    Descriptor socket_;
    std::optional<SideThread<tcp::AddressList>> lookup_;  // of a name: it may wait for a server
};

}  // namespace verbatim
