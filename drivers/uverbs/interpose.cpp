// Takes the place of a few calls of the C library in a process that uses rdma-core, so that the
// device file and its place in /sys are ours. Linked before libibverbs or preloaded; every other
// file is passed on. The devices of the tree are offered. The descriptor handed out is a memory
// file, so mmap() needs no help, and ioctl() fails with ENOTTY, which sends rdma-core to write().
// Threads: any. A call on a descriptor that is not ours costs one load.

// With it the C library's headers would turn the names defined here into others.
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/device_tree.hpp>
#include <verbatim/uverbs/uverbs.hpp>

#include "../rdmacm/open_channels.hpp"
#include "device_file.hpp"
#include "identity.hpp"
#include "progress_hooks.hpp"

namespace verbatim::uverbs {
namespace {

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The open device files, by descriptor. Small numbers, as the system hands them out.
class OpenFiles {
  public:
    DeviceFile* find(int fd) const noexcept {
        const auto at = static_cast<std::size_t>(fd);
        return at < files_.size() ? files_[at].load(std::memory_order_acquire) : nullptr;
    }
    std::atomic<bool> parked{false};  // those that are opened from now on
    int add(std::unique_ptr<DeviceFile> file) noexcept {
        const auto at = static_cast<std::size_t>(file->descriptor());
        if (at >= files_.size()) {
            next<int(int)>("close")(file->descriptor());
            errno = EMFILE;
            return -1;
        }
        files_[at].store(file.release(), std::memory_order_release);
        return static_cast<int>(at);
    }
    void remove(int fd) noexcept {
        const auto at = static_cast<std::size_t>(fd);
        if (at >= files_.size()) return;
        DeviceFile* const file = files_[at].exchange(nullptr);
        // In a forked child its threads and locks are the parent's: it is left as it is.
        if (file != nullptr && !file->inherited()) delete file;
    }

  private:
    std::array<std::atomic<DeviceFile*>, 4096> files_{};
};
constinit OpenFiles g_files;

int wanted_devices() noexcept {
    const char* const text = std::getenv(DeviceTree::kDevicesVariable);
    return text == nullptr ? 1 : std::atoi(text);
}

// The tree's root. Known when the library is loaded, before libibverbs first looks for devices.
const std::string* find_tree() noexcept {
    try {
        static const char* const given = std::getenv(DeviceTree::kVariable);
        static const std::optional<DeviceTree> own =
            given == nullptr ? std::make_optional<DeviceTree>(wanted_devices()) : std::nullopt;
        // Never destroyed: files are opened until the very end.
        static const auto* const root =
            new std::string(given == nullptr ? own->root() : std::string(given));
        setenv("SYSFS_PATH", root->c_str(), 1);
        return root;
    } catch (const std::exception& error) {
        log::error("{}", error.what());
        return nullptr;
    }
}
const std::string* const g_tree = find_tree();

// Which device a path means, if one of ours.
std::optional<Identity> device_at(const char* path) noexcept {
    constexpr std::string_view kPath = Identity::kDevicePath;
    if (g_tree == nullptr || path == nullptr || std::strncmp(path, kPath.data(), kPath.size()) != 0)
        return std::nullopt;
    const std::string_view number = path + kPath.size();
    int index = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index < 0 ||
        index >= DeviceTree::kMaxDevices)
        return std::nullopt;
    std::array<char, 4096> node;
    const auto text = fmt::format_to_n(node.data(), node.size() - 1,
                                       "{}/class/infiniband_verbs/uverbs{}", *g_tree, index);
    *text.out = '\0';
    if (access(node.data(), F_OK) != 0) return std::nullopt;
    return Identity{index};
}

int open_device(const Identity& identity) noexcept {
    try {
        return g_files.add(std::make_unique<DeviceFile>(identity, g_files.parked.load()));
    } catch (const std::bad_alloc&) {
        errno = ENOMEM;
    } catch (const Error& error) {
        log::error("{}", error.what());
        errno = ENOMEM;
    }
    return -1;
}

// What stat() says of a character device.
void describe_device(unsigned minor, struct stat* facts) noexcept {
    *facts = {};
    facts->st_mode = S_IFCHR | 0666;
    facts->st_rdev = makedev(Identity::kMajor, minor);
    facts->st_nlink = 1;
}

bool is_connection_manager(const char* path) noexcept {
    return g_tree != nullptr && path != nullptr && std::strcmp(path, rdmacm::kDevicePath) == 0;
}

// What write() returns after a command.
ssize_t result(int error, std::size_t bytes) noexcept {
    if (error == 0) return static_cast<ssize_t>(bytes);
    errno = error;
    return -1;
}

}  // namespace

[[gnu::visibility("default")]] const char* sysfs_root() noexcept {
    return g_tree != nullptr ? g_tree->c_str() : nullptr;
}

[[gnu::visibility("default")]] void park_new_devices(bool parked) noexcept {
    g_files.parked.store(parked);
}

DeviceFile* find_device_file(int descriptor) noexcept { return g_files.find(descriptor); }

}  // namespace verbatim::uverbs

using namespace verbatim::uverbs;
namespace rdmacm = verbatim::rdmacm;

extern "C" {

[[gnu::visibility("default")]] int open(const char* path, int flags, ...) {
    if (const auto identity = device_at(path)) return open_device(*identity);
    if (is_connection_manager(path)) return rdmacm::open_channel();
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode =
        (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : mode_t{0};
    va_end(arguments);
    static auto* const real = next<int(const char*, int, ...)>("open");
    return real(path, flags, mode);
}

[[gnu::visibility("default")]] int stat(const char* path, struct stat* facts) noexcept {
    static auto* const real = next<int(const char*, struct stat*)>("stat");
    const auto identity = device_at(path);
    if (!identity && !is_connection_manager(path)) return real(path, facts);
    describe_device(identity ? identity->minor() : Identity::kManagerMinor, facts);
    return 0;
}

[[gnu::visibility("default")]] int fstat(int fd, struct stat* facts) noexcept {
    static auto* const real = next<int(int, struct stat*)>("fstat");
    const DeviceFile* const file = g_files.find(fd);
    if (file == nullptr && rdmacm::find_channel(fd) == nullptr) return real(fd, facts);
    describe_device(file != nullptr ? file->identity().minor() : Identity::kManagerMinor, facts);
    return 0;
}

[[gnu::visibility("default")]] ssize_t write(int fd, const void* data, std::size_t bytes) {
    static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
    const std::span command(static_cast<const std::byte*>(data), bytes);
    if (DeviceFile* const file = g_files.find(fd)) return result(file->execute(command), bytes);
    if (const auto channel = rdmacm::find_channel(fd))
        return result(rdmacm::execute(channel, command), bytes);
    return real(fd, data, bytes);
}

[[gnu::visibility("default")]] int close(int fd) {
    static auto* const real = next<int(int)>("close");
    g_files.remove(fd);
    rdmacm::forget_channel(fd);
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
[[gnu::visibility("default"), gnu::alias("open")]] int open64(const char*, int, ...);
[[gnu::visibility("default"), gnu::alias("stat")]] int stat64(const char*, struct stat64*) noexcept;
[[gnu::visibility("default"), gnu::alias("fstat")]] int fstat64(int, struct stat64*) noexcept;

}  // extern "C"
