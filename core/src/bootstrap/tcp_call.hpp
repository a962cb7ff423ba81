// A TCP call looks up the host's name, then tries each of its addresses. Control path. Threads: one
// at a time.
#pragma once

#include <netdb.h>
#include <poll.h>

#include <memory>
#include <optional>

#include "call.hpp"
#include "side_thread.hpp"
#include "socket.hpp"

namespace verbatim {

class TcpCall final : public Call {
  public:
    TcpCall(HostPort to, Deadline deadline);
    bool go_on() override;
    pollfd waits_for() const noexcept override;
    Deadline wakes_at() const noexcept override { return deadline_; }
    SideChannel take() override { return SideChannel::over(std::move(socket_)); }

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
