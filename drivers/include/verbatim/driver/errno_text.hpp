// The kernel's error numbers in words. Threads: any.
#pragma once

#include <string>
#include <system_error>

namespace verbatim {

inline std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace verbatim
