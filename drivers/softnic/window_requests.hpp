// Executes the requests of a send queue that change this device's own memory keys: windows that
// open and close, local invalidation. Threads: the one inside the send gate.
#pragma once

#include "key_table.hpp"
#include "port.hpp"
#include "queue_pair_state.hpp"
#include "send_request.hpp"

namespace verbatim::softnic {

class WindowRequests {
  public:
    WindowRequests(KeyTable& keys, QueuePairShared& shared) noexcept
        : keys_(&keys), shared_(&shared) {}

    // Done, refused, or waits for another thread that is changing the key.
    PortAnswer execute(const SendRequest& request) noexcept;

  private:
    KeyUpdate update(const SendRequest& request) noexcept;
    KeyUpdate open(const SendRequest& request) noexcept;

    KeyTable* keys_;
    QueuePairShared* shared_;
};

}  // namespace verbatim::softnic
