// Which paths are the devices': files below /dev/infiniband, which do not exist, and the parts of
// /sys that are found in the tree instead. Programs name them in full; what they reach through a
// directory that they have opened is in the tree already. Threads: any.
#pragma once

#include <limits.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>

namespace verbatim::uverbs {

// The tree's root, null where there is none. Known when the library is loaded, before libibverbs
// first looks for devices; until then nothing is redirected.
const std::string* tree_root() noexcept;

// The minor number of the device file that a path means, if it is one of ours.
std::optional<unsigned> device_at(const char* path) noexcept;
// A descriptor for it, or -1 and errno. Defined where descriptors are handed out.
int open_device(unsigned minor_number) noexcept;
// What stat() says of it: a character device.
void describe_device(unsigned minor_number, struct stat* facts) noexcept;

// A path as the C library is to be given it: in the tree, if it is one of a device in /sys. Without
// a tree, and for every other path, the caller's own. Costs five characters' comparison then. The
// caller's text must stay.
class SystemPath {
  public:
    explicit SystemPath(const char* path) noexcept;
    SystemPath(const SystemPath&) = delete;
    SystemPath& operator=(const SystemPath&) = delete;

    const char* get() const noexcept { return path_; }

  private:
    const char* path_;
    std::array<char, PATH_MAX> buffer_;
};

// The other way, in place: what has its links resolved says /sys again where it says the tree. Null
// stays null.
char* as_system_path(char* resolved) noexcept;

}  // namespace verbatim::uverbs
