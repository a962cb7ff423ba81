// A call through the connection manager of an RDMA device looks up the host's name, then tries each
// of its addresses. Control path. Threads: one at a time.
#pragma once

#include <optional>

#include <verbatim/rdma/cm_streams.hpp>

#include "call.hpp"
#include "side_thread.hpp"

namespace verbatim {

class ManagerCall final : public Call {
  public:
    // `streams` outlives the call.
    ManagerCall(rdma::CmStreams& streams, ManagerPort to, Deadline deadline);
    bool go_on() override;
    pollfd waits_for() const noexcept override;
    Deadline wakes_at() const noexcept override { return deadline_; }
    SideChannel take() override { return SideChannel(std::move(*stream_)); }

  private:
    bool has_looked_up();
    void begin();
    bool has_called();

    rdma::CmStreams& streams_;
    ManagerPort to_;
    Deadline deadline_;
    tcp::AddressList addresses_;
    const addrinfo* next_ = nullptr;  // to be tried
    std::optional<rdma::CmPending> pending_;
    std::optional<rdma::CmStream> stream_;
    std::optional<SideThread<tcp::AddressList>> lookup_;  // of a name: it may wait for a server
};

}  // namespace verbatim
