// The admission of a datagram queue pair's sources: each sender gets a ring of its own, which is
// freed when nothing comes from it any more. Threads: control path, any; the receive gate guards
// the list of sources.
#pragma once

#include "../../softqueue/gate.hpp"
#include "../links/link_peer.hpp"
#include "../rings/ring_supply.hpp"
#include "queue_pair_attention.hpp"

namespace verbatim::softnic {

class SourceAdmission {
  public:
    SourceAdmission(QueuePairShared& shared, Gate& receive_gate, QueuePairAttention& attention,
                    RingSupply& supply) noexcept
        : shared_(shared), receive_gate_(receive_gate), attention_(attention), supply_(supply) {}
    SourceAdmission(const SourceAdmission&) = delete;
    SourceAdmission& operator=(const SourceAdmission&) = delete;

    // Control thread: hands out a ring to the peer's queue pair `from`. Throws Error.
    ChannelPlace admit(const LinkPeer& asking, std::uint32_t from, ChannelTerms terms);
    // Control thread: a peer's link is gone, and with it what its datagrams came through. Waits for
    // polls until `deadline` at most.
    void end_session(std::uint64_t session, Instant deadline) noexcept;
    // Nothing is listened to any more, and until the sources are cleared nobody is admitted.
    void close() noexcept;

  private:
    void listen_to(DatagramSources::Source& source);
    void sweep(Instant deadline) noexcept;

    QueuePairShared& shared_;
    Gate& receive_gate_;
    QueuePairAttention& attention_;
    RingSupply& supply_;
};

}  // namespace verbatim::softnic
