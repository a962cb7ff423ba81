// Whose files are read, and which are removed.
#include "directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <verbatim/core/telemetry.hpp>
#include <verbatim/driver/errno_text.hpp>

namespace verbatim::telemetry {
namespace {

constexpr std::time_t kKeptSeconds = 600;  // segments of killed processes

bool is_ours(const struct stat& file) { return file.st_uid == geteuid(); }

void check_directory(const std::string& path, const struct stat& found) {
    if (S_ISDIR(found.st_mode) && is_ours(found) && (found.st_mode & 022) == 0) return;
    throw Error(Errc::permission_denied, path,
                "it is no directory of this user's alone, so its files are not trusted",
                "choose another with directory in [telemetry], or --directory");
}

// Names of segments: a process, a time, a number.
bool is_name(std::string_view name) {
    return !name.empty() && name.find_first_not_of("0123456789abcdef-") == std::string_view::npos &&
           std::count(name.begin(), name.end(), '-') == 2;
}

// Killed long ago.
bool is_stale(const std::string& path) try {
    const Descriptor file = open_segment(path);
    struct stat found {};
    return !is_in_use(file) && fstat(file.get(), &found) == 0 &&
           std::time(nullptr) - found.st_mtime > kKeptSeconds;
} catch (const Error&) {
    return false;
}

}  // namespace

std::string default_directory() {
    const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
    if (runtime != nullptr && *runtime == '/' && access(runtime, W_OK) == 0)
        return std::string(runtime) + "/verbatim";
    return fmt::format("/dev/shm/verbatim-{}", geteuid());
}

void make_directory(const std::string& path) {
    struct stat found {};
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        throw Error(Errc::device_error, path, "it cannot be made: " + errno_text(errno),
                    "set directory in [telemetry], or enabled = false");
    if (lstat(path.c_str(), &found) == 0) check_directory(path, found);
}

Descriptor open_segment(const std::string& path) {
    // A fifo of that name would block the open.
    Descriptor file(
        ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (!file)
        throw Error(errno == ENOENT ? Errc::peer_lost : Errc::permission_denied, path,
                    "it cannot be opened: " + errno_text(errno),
                    "its process may have ended; list the segments again");
    struct stat found {};
    if (fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) || !is_ours(found))
        throw Error(Errc::permission_denied, path, "it is no file of this user's",
                    "read it as the user who runs the program");
    return file;
}

bool is_in_use(const Descriptor& segment) noexcept {
    if (flock(segment.get(), LOCK_SH | LOCK_NB) != 0) return true;
    (void)flock(segment.get(), LOCK_UN);
    return false;
}

std::vector<std::string> segments(const std::string& directory) {
    std::vector<std::string> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(directory.c_str()), closedir);
    if (open == nullptr) {
        if (errno == ENOENT) return found;
        throw Error(Errc::permission_denied, directory, errno_text(errno),
                    "name a directory of yours with --directory");
    }
    struct stat status {};
    if (fstat(dirfd(open.get()), &status) == 0) check_directory(directory, status);
    while (const dirent* const entry = readdir(open.get())) {
        std::string_view name = entry->d_name;
        const bool is_ready = !name.ends_with(kUnready);
        if (!is_ready) name.remove_suffix(kUnready.size());
        if (!is_name(name)) continue;
        std::string path = directory + "/" + entry->d_name;
        if (is_stale(path))
            unlink(path.c_str());
        else if (is_ready)
            found.push_back(std::move(path));
    }
    std::sort(found.begin(), found.end());
    return found;
}

}  // namespace verbatim::telemetry
