// Takes the place of those calls of the C library that take a path, so that programs find the
// devices where rdma-core, UCX and libfabric look for them. Each variant is here by its own name:
// the C library calls its own functions past any that take their place, those of checked builds
// (_FORTIFY_SOURCE) and of old ones among them. Threads: any.

// With these the C library's headers would turn the names defined here into others.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

#include "../uverbs/tree/next_function.hpp"
#include "device_paths.hpp"

using namespace verbatim::uverbs;

namespace {

bool makes_files(int flags) noexcept { return (flags & (O_CREAT | O_TMPFILE)) != 0; }

int open_path(const char* path, int flags, mode_t mode) {
    if (const auto device = device_at(path)) return open_device(*device);
    static auto* const real = next<int(const char*, int, ...)>("open");
    return real(SystemPath(path).get(), flags, mode);
}

int open_path_at(int directory, const char* path, int flags, mode_t mode) {
    if (const auto device = device_at(path)) return open_device(*device);
    static auto* const real = next<int(int, const char*, int, ...)>("openat");
    return real(directory, SystemPath(path).get(), flags, mode);
}

// 0, or -1 and errno. A device may be read and written.
int check_access(int directory, const char* path, int mode, int flags) noexcept {
    if (device_at(path)) {
        if ((mode & X_OK) == 0) return 0;
        errno = EACCES;
        return -1;
    }
    static auto* const real = next<int(int, const char*, int, int)>("faccessat");
    return real(directory, SystemPath(path).get(), mode, flags);
}

int describe_path(int directory, const char* path, struct stat* facts, int flags) noexcept {
    if (const auto device = device_at(path)) {
        describe_device(*device, facts);
        return 0;
    }
    static auto* const real = next<int(int, const char*, struct stat*, int)>("fstatat");
    return real(directory, SystemPath(path).get(), facts, flags);
}

// The old interface numbers the layouts of struct stat; this is the only one on 64-bit systems.
constexpr int kLayouts[] = {0, 1};

bool known_layout(int layout) noexcept {
    if (layout == kLayouts[0] || layout == kLayouts[1]) return true;
    errno = EINVAL;
    return false;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

// Opening

int open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = makes_files(flags) ? va_arg(arguments, mode_t) : mode_t{0};
    va_end(arguments);
    return open_path(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = makes_files(flags) ? va_arg(arguments, mode_t) : mode_t{0};
    va_end(arguments);
    return open_path_at(directory, path, flags, mode);
}

int __open_2(const char* path, int flags) { return open_path(path, flags, 0); }
int __openat_2(int directory, const char* path, int flags) {
    return open_path_at(directory, path, flags, 0);
}

FILE* fopen(const char* path, const char* mode) {
    static auto* const real = next<FILE*(const char*, const char*)>("fopen");
    return real(SystemPath(path).get(), mode);
}

DIR* opendir(const char* path) {
    static auto* const real = next<DIR*(const char*)>("opendir");
    return real(SystemPath(path).get());
}

int scandir(const char* path, dirent*** entries, int (*wanted)(const dirent*),
            int (*order)(const dirent**, const dirent**)) {
    static auto* const real = next<decltype(scandir)>("scandir");
    return real(SystemPath(path).get(), entries, wanted, order);
}

int glob(const char* pattern, int flags, int (*on_error)(const char*, int), glob_t* found) {
    static auto* const real = next<decltype(glob)>("glob");
    return real(SystemPath(pattern).get(), flags, on_error, found);
}

// Asking

int access(const char* path, int mode) noexcept { return check_access(AT_FDCWD, path, mode, 0); }
int faccessat(int directory, const char* path, int mode, int flags) noexcept {
    return check_access(directory, path, mode, flags);
}
int euidaccess(const char* path, int mode) noexcept {
    return check_access(AT_FDCWD, path, mode, AT_EACCESS);
}

int stat(const char* path, struct stat* facts) noexcept {
    return describe_path(AT_FDCWD, path, facts, 0);
}
int lstat(const char* path, struct stat* facts) noexcept {
    return describe_path(AT_FDCWD, path, facts, AT_SYMLINK_NOFOLLOW);
}
int fstatat(int directory, const char* path, struct stat* facts, int flags) noexcept {
    return describe_path(directory, path, facts, flags);
}

int __xstat(int layout, const char* path, struct stat* facts) noexcept {
    return known_layout(layout) ? stat(path, facts) : -1;
}
int __lxstat(int layout, const char* path, struct stat* facts) noexcept {
    return known_layout(layout) ? lstat(path, facts) : -1;
}
int __fxstat(int layout, int descriptor, struct stat* facts) noexcept {
    return known_layout(layout) ? fstat(descriptor, facts) : -1;
}
int __fxstatat(int layout, int directory, const char* path, struct stat* facts,
               int flags) noexcept {
    return known_layout(layout) ? fstatat(directory, path, facts, flags) : -1;
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* facts) noexcept {
    static auto* const real = next<decltype(statx)>("statx");
    return real(directory, SystemPath(path).get(), flags, mask, facts);
}

// ls asks these

ssize_t getxattr(const char* path, const char* name, void* value, std::size_t bytes) noexcept {
    static auto* const real = next<decltype(getxattr)>("getxattr");
    return real(SystemPath(path).get(), name, value, bytes);
}
ssize_t lgetxattr(const char* path, const char* name, void* value, std::size_t bytes) noexcept {
    static auto* const real = next<decltype(lgetxattr)>("lgetxattr");
    return real(SystemPath(path).get(), name, value, bytes);
}
ssize_t llistxattr(const char* path, char* list, std::size_t bytes) noexcept {
    static auto* const real = next<decltype(llistxattr)>("llistxattr");
    return real(SystemPath(path).get(), list, bytes);
}

// Following links

ssize_t readlink(const char* path, char* target, std::size_t bytes) noexcept {
    static auto* const real = next<decltype(readlink)>("readlink");
    return real(SystemPath(path).get(), target, bytes);
}

ssize_t readlinkat(int directory, const char* path, char* target, std::size_t bytes) noexcept {
    static auto* const real = next<decltype(readlinkat)>("readlinkat");
    return real(directory, SystemPath(path).get(), target, bytes);
}

ssize_t __readlink_chk(const char* path, char* target, std::size_t bytes, std::size_t room) {
    static auto* const real = next<decltype(__readlink_chk)>("__readlink_chk");
    return real(SystemPath(path).get(), target, bytes, room);
}

ssize_t __readlinkat_chk(int directory, const char* path, char* target, std::size_t bytes,
                         std::size_t room) {
    static auto* const real = next<decltype(__readlinkat_chk)>("__readlinkat_chk");
    return real(directory, SystemPath(path).get(), target, bytes, room);
}

char* realpath(const char* path, char* resolved) noexcept {
    static auto* const real = next<char*(const char*, char*)>("realpath");
    return as_system_path(real(SystemPath(path).get(), resolved));
}

char* __realpath_chk(const char* path, char* resolved, std::size_t room) {
    static auto* const real = next<decltype(__realpath_chk)>("__realpath_chk");
    return as_system_path(real(SystemPath(path).get(), resolved, room));
}

char* canonicalize_file_name(const char* path) noexcept { return realpath(path, nullptr); }

// Programs that were built for large files by that name; the same thing here.

[[gnu::alias("open")]] int open64(const char*, int, ...);
[[gnu::alias("openat")]] int openat64(int, const char*, int, ...);
[[gnu::alias("__open_2")]] int __open64_2(const char*, int);
[[gnu::alias("__openat_2")]] int __openat64_2(int, const char*, int);
[[gnu::alias("fopen")]] FILE* fopen64(const char*, const char*);
[[gnu::alias("stat")]] int stat64(const char*, struct stat64*) noexcept;
[[gnu::alias("lstat")]] int lstat64(const char*, struct stat64*) noexcept;
[[gnu::alias("fstatat")]] int fstatat64(int, const char*, struct stat64*, int) noexcept;
[[gnu::alias("__xstat")]] int __xstat64(int, const char*, struct stat64*) noexcept;
[[gnu::alias("__lxstat")]] int __lxstat64(int, const char*, struct stat64*) noexcept;
[[gnu::alias("__fxstat")]] int __fxstat64(int, int, struct stat64*) noexcept;
[[gnu::alias("__fxstatat")]] int __fxstatat64(int, int, const char*, struct stat64*, int) noexcept;
[[gnu::alias("scandir")]] int scandir64(const char*, dirent64***, int (*)(const dirent64*),
                                        int (*)(const dirent64**, const dirent64**));
[[gnu::alias("glob")]] int glob64(const char*, int, int (*)(const char*, int), glob64_t*);
[[gnu::alias("euidaccess")]] int eaccess(const char*, int) noexcept;

#pragma GCC visibility pop
}  // extern "C"
