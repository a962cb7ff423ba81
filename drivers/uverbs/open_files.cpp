// Which descriptors mean the same device file.
#include "open_files.hpp"

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/log.hpp>

#include "device_file.hpp"
#include "next_function.hpp"

namespace verbatim::uverbs {
namespace {

// The system's, not ours.
bool facts_of(int descriptor, struct stat& facts) noexcept {
    static auto* const real = next<int(int, struct stat*)>("fstat");
    return real(descriptor, &facts) == 0;
}

bool same(const struct stat& one, const struct stat& other) noexcept {
    return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

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

}  // namespace

int OpenFiles::add(std::unique_ptr<DeviceFile> file) noexcept {
    const auto at = static_cast<std::size_t>(file->descriptor());
    if (at >= files_.size()) {
        next<int(int)>("close")(file->descriptor());
        errno = EMFILE;
        return -1;
    }
    files_[at].store(file.release(), std::memory_order_release);
    return static_cast<int>(at);
}

DeviceFile* OpenFiles::adopt(int descriptor, const struct stat& facts) noexcept {
    const auto at = static_cast<std::size_t>(descriptor);
    if (at >= files_.size() || facts.st_nlink != 0 || facts.st_size != DeviceFile::kFileBytes)
        return nullptr;
    const std::lock_guard lock(mutex_);
    for (std::size_t other = 0; other < files_.size(); ++other) {
        DeviceFile* const file = files_[other].load(std::memory_order_relaxed);
        struct stat its {};
        if (file == nullptr || !facts_of(static_cast<int>(other), its) || !same(its, facts))
            continue;
        files_[at].store(file, std::memory_order_release);
        return file;
    }
    return nullptr;
}

// One that is not known yet is, afterwards.
bool OpenFiles::has_another(const DeviceFile& file, int descriptor) noexcept {
    for (const auto& entry : files_)
        if (entry.load(std::memory_order_relaxed) == &file) return true;
    struct stat facts {};
    if (!facts_of(descriptor, facts)) return false;
    return any_descriptor([&](int other) {
        struct stat its {};
        const auto at = static_cast<std::size_t>(other);
        if (other == descriptor || at >= files_.size() || !facts_of(other, its) ||
            !same(its, facts))
            return false;
        files_[at].store(const_cast<DeviceFile*>(&file), std::memory_order_release);
        return true;
    });
}

void OpenFiles::remove(int descriptor) noexcept {
    DeviceFile* const file = find(descriptor);
    if (file == nullptr) return;
    auto& entry = files_[static_cast<std::size_t>(descriptor)];
    // In a forked child its threads and locks are the parent's: it is left as it is.
    if (file->inherited()) return entry.store(nullptr);
    std::unique_ptr<DeviceFile> last;
    {
        const std::lock_guard lock(mutex_);
        if (entry.exchange(nullptr) != file) return;
        if (!has_another(*file, descriptor)) last.reset(file);
    }
}

bool is_device_file(int descriptor) noexcept {
    struct stat facts {};
    if (!facts_of(descriptor, facts)) return false;
    if (facts.st_nlink != 0 || facts.st_size != DeviceFile::kFileBytes) return false;
    std::array<char, 64> path, target;
    *fmt::format_to_n(path.data(), path.size() - 1, "/proc/self/fd/{}", descriptor).out = '\0';
    const ssize_t bytes = readlink(path.data(), target.data(), target.size());
    const std::string_view name(target.data(), bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return name.starts_with(DeviceFile::kLinkName);
}

void refuse_import() noexcept {
    log::error(
        "ibv_import_device: the software NIC cannot be imported; open it with ibv_open_device");
}

}  // namespace verbatim::uverbs
