// The process at the other end of a link that a peer opened.
#pragma once

#include <memory>

#include "../host/peer_process.hpp"
#include "../rings/channel.hpp"

namespace verbatim::softnic {

struct LinkPeer {
    PeerSession session;
    std::shared_ptr<const PeerProcess> process;
    bool same_user = false;
};

}  // namespace verbatim::softnic
