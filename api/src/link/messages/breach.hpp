// A breach is what a peer did against the protocol. Nothing that it sends is believed afterwards.
#pragma once

namespace verbatim::objects {

struct Breach {
    const char* what;
};

}  // namespace verbatim::objects
