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

// Bit of the number of a page file (page_view.hpp): its regions are memory of the owner's, who may
// unmap it while the file stays. Peers map others as a whole.
inline constexpr std::uint64_t kPageFile = std::uint64_t{1} << 63;
// Bit of the number of a sparse file: peers do not make its pages present.
inline constexpr std::uint64_t kSparseFile = std::uint64_t{1} << 62;

class FileTable {
  public:
    // The number of the file behind `file`, which is kept open until release(). Throws
    // Error(invalid_argument) if it is shorter than `min_bytes` or can shrink: peers would refuse
    // it. `kind`: 0, kPageFile or kSparseFile.
    std::uint64_t acquire(int file, std::uint64_t min_bytes, std::uint64_t kind = 0);
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
