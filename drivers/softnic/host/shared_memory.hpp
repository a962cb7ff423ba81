// Memory files (memfd) and their mappings. A file that a peer hands out is mapped only if its seals
// forbid shrinking and it is as long as announced: then no peer can ever cause a SIGBUS here.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "descriptor.hpp"

namespace verbatim::softnic {

// How a received file is mapped. Control structures are populated at once. Arenas are sparse files,
// much longer than what is registered in them: their pages are populated range by range
// (populate()), and a forked child does not get them. Slabs of rings are sparse as well; a forked
// child keeps them, because its dead queues still look there.
enum class Mapping : std::uint8_t { read_only, read_write, arena, slab };

// One mapping of a whole memory file. Mappings of the same file in this process are shared, so that
// two devices of one process meet at the same addresses (which also is what lets a thread sanitizer
// see both ends).
class SharedMemory {
  public:
    // A new sealed, populated file of zeros. `writable_by_peers` false: nobody else can map it
    // writable. Throws Error(out_of_memory).
    static std::shared_ptr<SharedMemory> create(const std::string& name, std::size_t bytes,
                                                bool writable_by_peers);
    // The same for a slab: its pages are not there before populate().
    static std::shared_ptr<SharedMemory> create_sparse(const std::string& name, std::size_t bytes);
    // Maps a received file. Throws Error(protocol_error) if it can shrink or is shorter than
    // `min_bytes`, Error(out_of_memory) if it cannot be mapped. `what` names it in messages. The
    // descriptor is duplicated.
    static std::shared_ptr<SharedMemory> map(int file, std::size_t min_bytes, Mapping mapping,
                                             const std::string& what);
    ~SharedMemory();
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;

    // Makes the pages of a range present and writable, so that no later access can find the machine
    // out of memory (SIGBUS). False: it is out of memory now.
    bool populate(std::uint64_t offset, std::uint64_t bytes) const noexcept;

    std::byte* data() const noexcept { return data_; }
    std::size_t bytes() const noexcept { return bytes_; }
    int file() const noexcept { return file_.get(); }

  private:
    static std::shared_ptr<SharedMemory> create(const std::string& name, std::size_t bytes,
                                                bool writable_by_peers, Mapping mapping);
    SharedMemory(Descriptor file, std::byte* data, std::size_t bytes) noexcept
        : file_(std::move(file)), data_(data), bytes_(bytes) {}

    Descriptor file_;
    std::byte* data_;
    std::size_t bytes_;
    std::uint64_t generation_ = fork_generation();
};

// Identity of a file, whatever descriptor names it.
struct FileIdentity {
    std::uint64_t device = 0, inode = 0;
    auto operator<=>(const FileIdentity&) const = default;
};
struct FileFacts {
    FileIdentity identity;
    std::size_t bytes = 0;
    bool can_shrink = true;
};
// Throws Error(invalid_argument) for a descriptor that is not open.
FileFacts inspect_file(int file, const std::string& what);

}  // namespace verbatim::softnic
