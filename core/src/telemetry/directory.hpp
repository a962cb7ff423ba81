// The directory of the segments of one user. Threads: any. Control path.
#pragma once

#include <string>
#include <string_view>

#include <verbatim/driver/descriptor.hpp>

namespace verbatim::telemetry {

// The end of a segment's name until it is complete. Such files are not listed.
inline constexpr std::string_view kUnready = ".new";

// For this user alone. Throws Error(permission_denied) where it is another's or open to others,
// Error(device_error) where it cannot be made.
void make_directory(const std::string& path);
// Opens a segment to read, and nothing else that has its name. Throws Error: peer_lost,
// permission_denied.
Descriptor open_segment(const std::string& path);
// Its process has it open. Else that has ended, or was killed.
bool is_in_use(const Descriptor& segment) noexcept;

}  // namespace verbatim::telemetry
