// The machine and the versions of the peers, as the report states them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbatim::bench {

// Name and value, in the order of the report.
std::vector<std::pair<std::string, std::string>> describe_machine();

inline constexpr std::string_view kNotMeasured =
    "Not measured: a ConnectX. Verbatim's device is the software NIC in ordinary memory, so the "
    "cost of\n"
    "register stores over PCIe, of the NIC's own processing and of the wire is in none of these "
    "figures.\n";

}  // namespace verbatim::bench
