// The open device files of this process, by descriptor. A device file lives as long as one of its
// descriptors is open, as an open file of the system does: the one that was handed out, or a
// duplicate, by dup() or by sending it to oneself. Duplicates are found by what the system says of
// them: when fstat() asks, and when a device file would otherwise end. Threads: any; looking up for
// the data path takes no lock and no system call.
#pragma once

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "../tree/handed_out.hpp"
#include "device_file.hpp"

struct ibv_context;

namespace verbatim::uverbs {

// One of them. The process that opened it executes it; in its children it is dead.
struct OpenFile {
    OpenFile(const Identity& identity, bool parked)
        : device(identity, parked), handed_out(device.descriptor()) {}

    DeviceFile device;
    const HandedOut handed_out;
    // Under the lock of OpenFiles.
    std::vector<int> descriptors;  // that are known
    OpenFile* next = nullptr;
    // Of libibverbs, once libmlx5 has filled its tables.
    std::atomic<const ibv_context*> context{nullptr};
};

class OpenFiles {
  public:
    // For the data path, by a descriptor that libibverbs has opened and not closed. Null: none.
    OpenFile* find(int descriptor) const noexcept {
        const auto at = static_cast<std::size_t>(descriptor);
        return at < kDescriptors ? place(descriptor).load(std::memory_order_acquire) : nullptr;
    }
    // By any descriptor: one that stands for another file by now is known no more.
    OpenFile* look_up(int descriptor) noexcept;
    // The descriptor, or -1 and errno.
    int add(std::unique_ptr<OpenFile> file) noexcept;
    // `facts`: what the system says of a descriptor that look_up() does not know. Not null: it is a
    // duplicate, and known from now on.
    OpenFile* adopt(int descriptor, const struct stat& facts) noexcept;
    // The number is about to be closed, or stands for something else. The last one of a device file
    // ends that; in a child nothing happens.
    void remove(int descriptor) noexcept;
    void remove(unsigned first, unsigned last) noexcept;
    // Around a fork, so that the lock is free in the child.
    void lock() noexcept { mutex_.lock(); }
    void unlock() noexcept { mutex_.unlock(); }

  private:
    // Linux' limit of descriptors where nobody has raised it (fs.nr_open). Pages of the table that
    // nobody touches take no memory.
    static constexpr std::size_t kDescriptors = std::size_t{1} << 20;

    std::atomic_ref<OpenFile*> place(int descriptor) const noexcept {
        return std::atomic_ref(files_[static_cast<std::size_t>(descriptor)]);
    }
    int any_known(unsigned first, unsigned last) noexcept;
    void note(OpenFile& file, int descriptor);
    void unlink(OpenFile& file) noexcept;
    bool drop(OpenFile& file, int descriptor) noexcept;
    bool find_another(OpenFile& file, int descriptor) noexcept;

    std::mutex mutex_;          // guards changes
    OpenFile* open_ = nullptr;  // the first of a list
    // By std::atomic_ref: so many atomics are too many for a compiler to initialise.
    mutable std::array<OpenFile*, kDescriptors> files_{};
};

// Of this process. Null: the descriptor is no device file. Defined where descriptors are handed
// out.
OpenFile* find_open_file(int descriptor) noexcept;
OpenFile* look_up_open_file(int descriptor) noexcept;
// A number, or all from `first` to `last`, is about to be closed, or stands for something else.
void leave_number(int descriptor) noexcept;
void leave_numbers(unsigned first, unsigned last) noexcept;
// Raises the limit of open files as far as the process may: each queue pair is one here, of which a
// card needs none.
void make_room_for_files() noexcept;
// Whether the system's file is one of a device, this process's or another's.
bool is_device_file(int descriptor) noexcept;

}  // namespace verbatim::uverbs
