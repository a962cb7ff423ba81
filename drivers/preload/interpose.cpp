// Takes the place of a few calls of the C library in a process that uses rdma-core, so that the
// device file is ours; interpose_paths.cpp has those that take paths, interpose_duplicates.cpp
// those that put one file in another's place. Linked before libibverbs or preloaded; every other
// file is passed on. The descriptor handed out is a memory file, so mmap() needs no help. Threads:
// any. A call on a descriptor that is not ours costs one load.

// With it the C library's headers would turn the names defined here into others.
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <memory>
#include <new>
#include <span>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "../rdmacm/files/open_channels.hpp"
#include "../softnic/host/cancellation.hpp"
#include "../uverbs/files/open_files.hpp"
#include "../uverbs/tree/identity.hpp"
#include "../uverbs/tree/next_function.hpp"
#include "created_objects.hpp"
#include "device_paths.hpp"

namespace verbatim::uverbs {
namespace {

constinit OpenFiles g_files;
constinit std::atomic<bool> g_parked{false};  // those that are opened from now on

}  // namespace

[[gnu::visibility("default")]] const char* sysfs_root() noexcept {
    return tree_root() != nullptr ? tree_root()->c_str() : nullptr;
}

[[gnu::visibility("default")]] void park_new_devices(bool parked) noexcept {
    g_parked.store(parked);
}

OpenFile* find_open_file(int descriptor) noexcept { return g_files.find(descriptor); }
OpenFile* look_up_open_file(int descriptor) noexcept { return g_files.look_up(descriptor); }

// May be called by handlers of signals: takes no lock where it is no device's.
void leave_number(int descriptor) noexcept {
    g_files.remove(descriptor);
    rdmacm::forget_channel(descriptor);
}

void leave_numbers(unsigned first, unsigned last) noexcept {
    g_files.remove(first, last);
    rdmacm::forget_channels(first, last);
}

int open_device(unsigned minor_number) noexcept {
    if (minor_number == Identity::kManagerMinor) return rdmacm::open_channel();
    try {
        static const bool forks = pthread_atfork([] { g_files.lock(); }, [] { g_files.unlock(); },
                                                 [] { g_files.unlock(); }) == 0;
        static_cast<void>(forks);
        make_room_for_files();
        const Identity identity{static_cast<int>(minor_number - Identity::kFirstMinor)};
        return g_files.add(std::make_unique<OpenFile>(identity, g_parked.load()));
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
    } catch (const Error& error) {
        log::error("{}", error.what());
        errno = error.code() == Errc::config_error ? EINVAL : ENOMEM;
    }
    return -1;
}

namespace {

// What write() returns after a command.
ssize_t result(int error, std::size_t bytes) noexcept {
    if (error == 0) return static_cast<ssize_t>(bytes);
    errno = error;
    return -1;
}

// As write() it is a point of cancellation, and as a command it is not interrupted.
int execute(OpenFile& file, std::span<const std::byte> command) {
    if (!file.handed_out.mine()) return EIO;
    pthread_testcancel();
    const softnic::WithoutCancellation none;
    const int error = file.device.execute(command);
    if (error == 0) take_over_made(file, command);
    return error;
}

int invoke(OpenFile& file, ib_uverbs_ioctl_hdr& header) noexcept {
    if (!file.handed_out.mine()) return EIO;
    const softnic::WithoutCancellation none;
    return file.device.invoke(header);
}

}  // namespace
}  // namespace verbatim::uverbs

using namespace verbatim::uverbs;
namespace rdmacm = verbatim::rdmacm;

extern "C" {

[[gnu::visibility("default")]] int fstat(int fd, struct stat* facts) noexcept {
    static auto* const real = next<int(int, struct stat*)>("fstat");
    OpenFile* file = g_files.look_up(fd);
    if (file == nullptr && rdmacm::find_channel(fd) == nullptr) {
        const int result = real(fd, facts);
        if (result != 0 || (file = g_files.adopt(fd, *facts)) == nullptr) return result;
    }
    describe_device(
        file != nullptr ? file->device.identity().minor_number() : Identity::kManagerMinor, facts);
    return 0;
}

[[gnu::visibility("default")]] ssize_t write(int fd, const void* data, std::size_t bytes) {
    static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
    const std::span command(static_cast<const std::byte*>(data), bytes);
    if (OpenFile* const file = g_files.look_up(fd)) return result(execute(*file, command), bytes);
    if (const auto channel = rdmacm::find_channel(fd))
        return result(rdmacm::execute(channel, command), bytes);
    return real(fd, data, bytes);
}

[[gnu::visibility("default")]] int ioctl(int fd, unsigned long request, ...) noexcept {
    static auto* const real = next<int(int, unsigned long, void*)>("ioctl");
    va_list arguments;
    va_start(arguments, request);
    void* const argument = va_arg(arguments, void*);
    va_end(arguments);
    OpenFile* const file = request == RDMA_VERBS_IOCTL ? g_files.look_up(fd) : nullptr;
    if (file == nullptr) return real(fd, request, argument);
    return static_cast<int>(result(invoke(*file, *static_cast<ib_uverbs_ioctl_hdr*>(argument)), 0));
}

[[gnu::visibility("default")]] int close(int fd) {
    static auto* const real = next<int(int)>("close");
    leave_number(fd);
    return real(fd);
}

// A kernel with RDMA drivers would answer libibverbs over netlink that there are no devices;
// refused there, libibverbs looks into /sys.
[[gnu::visibility("default")]] int socket(int family, int type, int protocol) noexcept {
    static auto* const real = next<int(int, int, int)>("socket");
    if (family != AF_NETLINK || protocol != NETLINK_RDMA) return real(family, type, protocol);
    errno = EPROTONOSUPPORT;
    return -1;
}

// Programs that were built for large files by that name; the same thing here.
[[gnu::visibility("default"), gnu::alias("fstat")]] int fstat64(int, struct stat64*) noexcept;

}  // extern "C"
