// The open device files of this process, by descriptor. A program may duplicate a descriptor, by
// dup() or by sending it to itself; the device file lives as long as one of them is open, as an
// open file of the system does. Duplicates are found by what the system says of them, when they are
// first used and when a device file would otherwise end. Threads: any; looking up takes no lock.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace verbatim::uverbs {

class DeviceFile;

class OpenFiles {
  public:
    DeviceFile* find(int descriptor) const noexcept {
        const auto at = static_cast<std::size_t>(descriptor);
        return at < files_.size() ? files_[at].load(std::memory_order_acquire) : nullptr;
    }
    // The descriptor, or -1 and errno.
    int add(std::unique_ptr<DeviceFile> file) noexcept;
    // `facts`: what the system says of a descriptor that find() does not know. Not null: it is a
    // duplicate, and known from now on.
    DeviceFile* adopt(int descriptor, const struct stat& facts) noexcept;
    // The caller closes it. The last one of a device file ends that.
    void remove(int descriptor) noexcept;

  private:
    bool has_another(const DeviceFile& file, int descriptor) noexcept;

    std::mutex mutex_;  // of changes
    std::array<std::atomic<DeviceFile*>, 4096> files_{};
};

// Whether the system's file is one of a device, this process's or another's.
bool is_device_file(int descriptor) noexcept;
// Says in the log that contexts cannot be imported.
void refuse_import() noexcept;

}  // namespace verbatim::uverbs
