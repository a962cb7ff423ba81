// Input for the packages case on machines that have no package database.
#pragma once

#include <string>

#include "packages/database.hpp"

namespace bench_graph {

// Text in the format of /var/lib/dpkg/status with the proportions of a real one (Debian 12 with
// development tools: 820 packages, 5.5 alternatives, 0.17 provisions and 630 bytes of text each).
// Always the same.
std::string synthetic_status();

// /var/lib/dpkg/status, or synthetic_status() where there is none. Read once.
const packages::Database& package_database();

}  // namespace bench_graph
