// Numbering and keeping of registered memory files.
#include "file_table.hpp"

#include <fcntl.h>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {

std::uint64_t FileTable::acquire(int file, std::uint64_t min_bytes, std::uint64_t kind) {
    const FileFacts facts = inspect_file(file, "memory region");
    if (facts.can_shrink)
        throw Error(Errc::invalid_argument, "memory region",
                    "its memory file is not sealed against shrinking",
                    "use a memfd with F_SEAL_SHRINK, as Arena does");
    if (facts.bytes < min_bytes)
        throw Error(
            Errc::invalid_argument, "memory region",
            fmt::format("it ends at byte {} of a memory file of {} bytes", min_bytes, facts.bytes),
            "register only what the file holds");
    const std::lock_guard lock(mutex_);
    const auto [known, fresh] = numbers_.try_emplace(facts.identity, next_ | kind);
    if (fresh) {
        files_[known->second] = {Descriptor(fcntl(file, F_DUPFD_CLOEXEC, 0)), facts.identity, 0};
        ++next_;
    }
    ++files_[known->second].users;
    return known->second;
}

void FileTable::release(std::uint64_t number) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(number);
    if (found == files_.end() || --found->second.users != 0) return;
    numbers_.erase(found->second.identity);
    files_.erase(found);
}

Descriptor FileTable::duplicate(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(number);
    if (found == files_.end()) return {};
    return Descriptor(fcntl(found->second.descriptor.get(), F_DUPFD_CLOEXEC, 0));
}

std::vector<std::uint64_t> FileTable::numbers_after(std::uint64_t after, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    std::vector<std::uint64_t> numbers;
    for (auto it = files_.upper_bound(after); it != files_.end() && numbers.size() < limit; ++it)
        numbers.push_back(it->first);
    return numbers;
}

}  // namespace verbatim::softnic
