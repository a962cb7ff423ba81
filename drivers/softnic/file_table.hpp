// The memory files a device has registered regions in, numbered for its peers. Numbers are never
// reused. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "descriptor.hpp"
#include "shared_memory.hpp"

namespace verbatim::softnic {

class FileTable {
  public:
    // The number of the file behind `file`, which is kept open until release(). Throws
    // Error(invalid_argument) if it is shorter than `min_bytes` or can shrink: peers would refuse
    // it.
    std::uint64_t acquire(int file, std::uint64_t min_bytes);
    void release(std::uint64_t number) noexcept;
    // A duplicate of the file's descriptor, empty if there is no such file (any more).
    Descriptor duplicate(std::uint64_t number);
    // The first `limit` numbers above `after`.
    std::vector<std::uint64_t> numbers_after(std::uint64_t after, std::size_t limit);

  private:
    struct Entry {
        Descriptor descriptor;
        FileIdentity identity;
        std::uint32_t users = 0;
    };
    std::mutex mutex_;
    std::map<std::uint64_t, Entry> files_;
    std::map<FileIdentity, std::uint64_t> numbers_;
    std::uint64_t next_ = 1;
};

}  // namespace verbatim::softnic
