// A link that a peer opened, as the control thread keeps it.
#pragma once

#include <sys/types.h>

#include "../host/descriptor.hpp"
#include "../host/link_message.hpp"
#include "link_peer.hpp"

namespace verbatim::softnic {

struct LinkSession {
    Descriptor socket;
    bool welcomed = false;
    bool may_attach = false;  // has proven it
    uid_t user = 0;
    Instant hello_by;
    LinkPeer peer;
};

}  // namespace verbatim::softnic
