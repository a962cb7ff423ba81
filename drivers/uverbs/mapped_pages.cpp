// Reads /proc/self/maps (proc(5)).
#include "mapped_pages.hpp"

#include <sys/sysmacros.h>

#include <cinttypes>
#include <cstdio>
#include <memory>

#include <verbatim/driver/error.hpp>

namespace verbatim::uverbs {

std::vector<MappedPages> mapped_for_writing(const softnic::FileIdentity& file) {
    const auto close = [](std::FILE* list) { std::fclose(list); };
    const std::unique_ptr<std::FILE, decltype(close)> list(std::fopen("/proc/self/maps", "re"),
                                                           close);
    if (list == nullptr)
        throw Error(Errc::device_error, "/proc/self/maps", "it cannot be read",
                    "is /proc mounted?");
    std::vector<MappedPages> found;
    // A line may be longer than this; then the rest of its path is no line of this form.
    char line[512];
    while (std::fgets(line, sizeof line, list.get()) != nullptr) {
        std::uint64_t start = 0, end = 0, offset = 0, inode = 0;
        unsigned major_number = 0, minor_number = 0;
        char permissions[5] = {};
        if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &start,
                        &end, permissions, &offset, &major_number, &minor_number, &inode) != 7)
            continue;
        if (inode != file.inode || makedev(major_number, minor_number) != file.device ||
            permissions[1] != 'w' || permissions[3] != 's')
            continue;
        found.push_back({start, end - start, offset});
    }
    return found;
}

}  // namespace verbatim::uverbs
