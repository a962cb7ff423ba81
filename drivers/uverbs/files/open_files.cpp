// Which descriptors mean the same device file.
// With it the C library's headers would turn fstat into another.
#undef _FILE_OFFSET_BITS
#include "open_files.hpp"

#include <dirent.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <new>
#include <string_view>

#include <fmt/format.h>

#include "../progress/register_pages.hpp"
#include "../tree/next_function.hpp"

namespace verbatim::uverbs {
namespace {

// Calls `found` with each open descriptor of the process until it says true.
template <class Found>
bool any_descriptor(Found&& found) noexcept {
    DIR* const directory = opendir("/proc/self/fd");
    if (directory == nullptr) return false;
    bool stop = false;
    for (const dirent* entry = readdir(directory); entry != nullptr && !stop;
         entry = readdir(directory)) {
        int descriptor = -1;
        const std::string_view name = entry->d_name;
        std::from_chars(name.data(), name.data() + name.size(), descriptor);
        stop = descriptor >= 0 && found(descriptor);
    }
    closedir(directory);
    return stop;
}

bool has_size_of_device(const struct stat& facts) noexcept {
    return facts.st_nlink == 0 && facts.st_size == RegisterPages::kFileBytes;
}

}  // namespace

OpenFile* OpenFiles::look_up(int descriptor) noexcept {
    OpenFile* const file = find(descriptor);
    if (file == nullptr || file->handed_out.is(descriptor)) return file;
    remove(descriptor);
    return nullptr;
}

// Under mutex_.
void OpenFiles::note(OpenFile& file, int descriptor) {
    file.descriptors.push_back(descriptor);
    place(descriptor).store(&file, std::memory_order_release);
}

int OpenFiles::add(std::unique_ptr<OpenFile> file) noexcept try {
    const int descriptor = file->device.descriptor();
    if (static_cast<std::size_t>(descriptor) >= kDescriptors) {
        next<int(int)>("close")(descriptor);
        errno = EMFILE;
        return -1;
    }
    remove(descriptor);  // another file had the number before
    const std::lock_guard lock(mutex_);
    note(*file, descriptor);
    file->next = open_;
    open_ = file.release();
    return descriptor;
} catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
}

OpenFile* OpenFiles::adopt(int descriptor, const struct stat& facts) noexcept try {
    if (static_cast<std::size_t>(descriptor) >= kDescriptors || !has_size_of_device(facts))
        return nullptr;
    const std::lock_guard lock(mutex_);
    OpenFile* file = open_;
    while (file != nullptr && !file->handed_out.is(descriptor)) file = file->next;
    if (file != nullptr) note(*file, descriptor);
    return file;
} catch (const std::bad_alloc&) {
    return nullptr;
}

// One that is not known yet is, afterwards. Under mutex_.
bool OpenFiles::find_another(OpenFile& file, int descriptor) noexcept {
    std::erase_if(file.descriptors, [&](int known) {
        if (file.handed_out.is(known)) return false;
        place(known).store(nullptr);
        return true;
    });
    if (!file.descriptors.empty()) return true;
    return any_descriptor([&](int other) {
        if (other == descriptor || static_cast<std::size_t>(other) >= kDescriptors ||
            !file.handed_out.is(other))
            return false;
        note(file, other);
        return true;
    });
}

// Whether it was the last one. Under mutex_.
bool OpenFiles::drop(OpenFile& file, int descriptor) noexcept {
    if (place(descriptor).load(std::memory_order_relaxed) != &file) return false;
    place(descriptor).store(nullptr);
    std::erase(file.descriptors, descriptor);
    if (find_another(file, descriptor)) return false;
    unlink(file);
    return true;
}

// Under mutex_.
void OpenFiles::unlink(OpenFile& file) noexcept {
    OpenFile** place = &open_;
    while (*place != &file) place = &(*place)->next;
    *place = file.next;
}

// A child leaves the table as it is: one of vfork() has the parent's, and another one's device file
// has its threads and locks in the parent.
void OpenFiles::remove(int descriptor) noexcept {
    OpenFile* const file = find(descriptor);
    if (file == nullptr || !file->handed_out.mine()) return;
    std::unique_ptr<OpenFile> last;
    {
        const std::lock_guard lock(mutex_);
        if (drop(*file, descriptor)) last.reset(file);
    }
}

void OpenFiles::remove(unsigned first, unsigned last) noexcept {
    for (int known = any_known(first, last); known >= 0; known = any_known(first, last))
        remove(known);
}

// One of these numbers that remove() would not leave; -1: none.
int OpenFiles::any_known(unsigned first, unsigned last) noexcept {
    const std::lock_guard lock(mutex_);
    for (const OpenFile* file = open_; file != nullptr; file = file->next)
        for (const int known : file->descriptors)
            if (file->handed_out.mine() && unsigned(known) >= first && unsigned(known) <= last)
                return known;
    return -1;
}

void make_room_for_files() noexcept {
    constexpr rlim_t kFiles = 1 << 16;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kFiles) return;
    limit.rlim_cur = std::min(limit.rlim_max, kFiles);
    setrlimit(RLIMIT_NOFILE, &limit);
}

bool is_device_file(int descriptor) noexcept {
    static auto* const real = next<int(int, struct stat*)>("fstat");
    struct stat facts {};
    if (real(descriptor, &facts) != 0 || !has_size_of_device(facts)) return false;
    std::array<char, 64> path, target;
    *fmt::format_to_n(path.data(), path.size() - 1, "/proc/self/fd/{}", descriptor).out = '\0';
    const ssize_t bytes = readlink(path.data(), target.data(), target.size());
    const std::string_view name(target.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return name.starts_with(RegisterPages::kLinkName);
}

}  // namespace verbatim::uverbs
