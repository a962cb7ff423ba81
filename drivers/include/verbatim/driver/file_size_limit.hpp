// The file size limit (RLIMIT_FSIZE) holds for memory files as well. Growing a file past it raises
// SIGXFSZ, which ends a process. So test it before growing a file. Threads: any.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <limits>

namespace verbatim {

// In bytes; the largest number if there is no limit.
inline std::uint64_t file_size_limit() noexcept {
    rlimit limit{};
    const bool limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return limited ? limit.rlim_cur : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace verbatim
