// flock() on an open file that lives by its mapping.
#include "tree_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "../../softqueue/page.hpp"

namespace verbatim::uverbs {
namespace {

int open_lock(const std::string& root) noexcept try {
    return open((root + "/" + TreeLock::kFile).c_str(), O_RDONLY | O_CLOEXEC);
} catch (const std::exception&) {
    return -1;
}

}  // namespace

TreeLock::TreeLock(const std::string& root) noexcept {
    const int file = open_lock(root);
    if (file < 0) return;
    if (flock(file, LOCK_SH) == 0) {
        void* const page = mmap(nullptr, softnic::kPageBytes, PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) page_ = page;
    }
    close(file);
}

TreeLock::TreeLock(TreeLock&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}

TreeLock& TreeLock::operator=(TreeLock&& other) noexcept {
    std::swap(page_, other.page_);
    return *this;
}

void TreeLock::release() noexcept {
    if (page_ != nullptr) munmap(std::exchange(page_, nullptr), softnic::kPageBytes);
}

// Another open file than any holder's, which therefore excludes it.
bool TreeLock::unused(const std::string& root) noexcept {
    const int file = open_lock(root);
    if (file < 0) return true;
    const bool free = flock(file, LOCK_EX | LOCK_NB) == 0;
    close(file);
    return free;
}

}  // namespace verbatim::uverbs
