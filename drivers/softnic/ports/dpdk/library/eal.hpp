// The environment of DPDK in this process (EAL): set up once, by this library or by the program.
// Control path; threads: any.
#pragma once

#include "failure.hpp"

namespace verbatim::softnic {

// Sets it up where that was not done yet. It stays until the process ends: DPDK cannot set it up
// twice. Throws EthernetProblem.
void need_eal(const EthernetSettings& settings);

}  // namespace verbatim::softnic
