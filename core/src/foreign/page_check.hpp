// The page check finds pages that are missing, or may not be written, before a device is given
// them. Threads: any. Control path.
#pragma once

#include <verbatim/driver/device.hpp>

#include "watched_ranges.hpp"

namespace verbatim {

// Populates the pages for that access, as a device's registration would. Throws Error:
// invalid_argument (not mapped, not readable, read-only where local_write is wanted, beyond the end
// of a file).
void check_pages(const PageRange& pages, Access access);

}  // namespace verbatim
