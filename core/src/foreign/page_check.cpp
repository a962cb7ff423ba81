// Pages are populated by the kernel, which says why it cannot.
#include "page_check.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <verbatim/driver/errno_text.hpp>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim {
namespace {

// Linux before 5.14 has no such advice.
bool has_populate() noexcept {
    static const bool known = madvise(nullptr, 0, MADV_POPULATE_READ) == 0;
    return known;
}

// Zero, or the error's number.
int populate(const PageRange& pages, int advice) noexcept {
    while (madvise(reinterpret_cast<void*>(pages.first), pages.bytes(), advice) != 0)
        if (errno != EINTR && errno != EAGAIN) return errno;
    return 0;
}

Error refusal(const PageRange& pages, const std::string& cause, std::string remedy) {
    return {Errc::invalid_argument, "registration",
            fmt::format("{} bytes at {:#x}: {}", pages.bytes(), pages.first, cause),
            std::move(remedy)};
}

Error refusal(const PageRange& pages, int error) {
    if (error == ENOMEM)
        return refusal(pages, "not all of it is mapped, or the machine has no memory for it",
                       "give memory that is mapped as a whole");
    if (error == EFAULT)
        return refusal(pages, "some of it lies beyond the end of its file, or is broken",
                       "map no more than the file has");
    return refusal(pages, "some of it cannot be read (" + errno_text(error) + ")",
                   "give memory that is mapped with PROT_READ");
}

}  // namespace

void check_pages(const PageRange& pages, Access access) {
    if (!has_populate()) return;  // the device says it, less well
    const bool writes = allows(access, Access::local_write);
    const int error = populate(pages, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    if (error == 0) return;
    if (writes && populate(pages, MADV_POPULATE_READ) == 0)
        throw refusal(pages, "some of it is read-only, and the device is to write there",
                      "map it with PROT_WRITE, or acquire it with Access::local_read");
    throw refusal(pages, error);
}

}  // namespace verbatim
