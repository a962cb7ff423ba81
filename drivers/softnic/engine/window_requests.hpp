// Executes the requests of a send queue that change this device's own memory keys: windows that
// open and close, local invalidation. Threads: the one inside the send gate.
#pragma once

#include "../keys/key_table.hpp"
#include "../keys/pending_revocation.hpp"
#include "../ports/port.hpp"
#include "../ports/send_request.hpp"
#include "../queue_pair/queue_pair_state.hpp"

namespace verbatim::softnic {

class WindowRequests {
  public:
    WindowRequests(KeyTable& keys, QueuePairShared& shared) noexcept
        : keys_(&keys), shared_(&shared) {}

    // Done, refused, or waits: for another thread that is changing the key, or for those who use
    // one that was taken away.
    PortAnswer execute(const SendRequest& request) noexcept;
    void reset() noexcept { revocation_.reset(); }

  private:
    KeyUpdate update_and_wait(const SendRequest& request) noexcept;
    KeyUpdate update(const SendRequest& request) noexcept;
    KeyUpdate open(const SendRequest& request) noexcept;

    KeyTable* keys_;
    QueuePairShared* shared_;
    PendingRevocation revocation_;  // by the request at the head
};

}  // namespace verbatim::softnic
