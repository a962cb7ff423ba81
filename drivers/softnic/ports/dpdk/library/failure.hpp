// A problem of the library, which goes to its caller as text: no exception crosses its border.
#pragma once

#include <string>

#include "ethernet_device.hpp"

namespace verbatim::softnic {

struct EthernetProblem {
    std::string object, cause, remedy;
};

}  // namespace verbatim::softnic
