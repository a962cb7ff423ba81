// Creation, checks and the process-wide list of mappings.
#include "shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/file_size_limit.hpp>

#include "../../softqueue/page.hpp"

namespace verbatim::softnic {
namespace {

struct MappingKey {
    FileIdentity identity;
    Mapping mapping;
    auto operator<=>(const MappingKey&) const = default;
};

// Never destroyed: devices with static storage may unmap at exit.
struct Mappings {
    std::uint64_t generation = 0;
    std::map<MappingKey, std::weak_ptr<SharedMemory>> live;
};

// Under the lock. A forked child starts with none: arenas were not copied into it.
Mappings& mappings() {
    static Mappings* const instance = new Mappings;
    if (std::exchange(instance->generation, fork_generation()) != fork_generation())
        instance->live.clear();
    return *instance;
}

[[noreturn]] void fail_memory(const std::string& what, const char* step, std::size_t bytes) {
    throw Error(
        Errc::out_of_memory, what,
        fmt::format("{} of {} bytes failed: {}", step, bytes, std::strerror(errno)),
        "free memory, raise the address space limit (ulimit -v) if it is set, or use smaller "
        "arenas and queues");
}

void expect_file_size(const std::string& what, std::size_t bytes) {
    const std::uint64_t limit = file_size_limit();
    if (bytes <= limit) return;
    throw Error(Errc::out_of_memory, what,
                fmt::format("it needs {} bytes, the limit of file sizes (RLIMIT_FSIZE) is {} bytes",
                            bytes, limit),
                "run: ulimit -f unlimited");
}

std::byte* map_file(int file, std::size_t bytes, Mapping mapping, const std::string& what) {
    const int rights = mapping == Mapping::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
    const bool sparse = mapping == Mapping::arena || mapping == Mapping::slab;
    const int populate = sparse ? MAP_NORESERVE : MAP_POPULATE;
    void* const data = mmap(nullptr, bytes, rights, MAP_SHARED | populate, file, 0);
    if (data == MAP_FAILED) fail_memory(what, "mapping", bytes);
    if (mapping == Mapping::arena) madvise(data, bytes, MADV_DONTFORK);
    return static_cast<std::byte*>(data);
}

// A mapping that this process has already; a read-write one also serves readers.
std::shared_ptr<SharedMemory> find_live(const FileIdentity& identity, std::size_t min_bytes,
                                        Mapping mapping) {
    for (const Mapping candidate : {mapping, Mapping::read_write}) {
        const auto found = mappings().live.find({identity, candidate});
        if (found == mappings().live.end()) continue;
        auto memory = found->second.lock();
        if (memory != nullptr && memory->bytes() >= min_bytes) return memory;
    }
    return nullptr;
}

void remember(const FileIdentity& identity, Mapping mapping,
              const std::shared_ptr<SharedMemory>& memory) {
    std::erase_if(mappings().live, [](const auto& entry) { return entry.second.expired(); });
    mappings().live[{identity, mapping}] = memory;
}

}  // namespace

FileFacts inspect_file(int file, const std::string& what) {
    struct stat status {};
    if (fstat(file, &status) != 0)
        throw Error(Errc::invalid_argument, what, fmt::format("fstat: {}", std::strerror(errno)),
                    "pass the descriptor of an open memory file");
    const int seals = fcntl(file, F_GET_SEALS);
    return {{status.st_dev, status.st_ino},
            static_cast<std::size_t>(status.st_size),
            seals < 0 || (seals & F_SEAL_SHRINK) == 0};
}

std::shared_ptr<SharedMemory> SharedMemory::create(const std::string& name, std::size_t bytes,
                                                   bool writable_by_peers) {
    return create(name, bytes, writable_by_peers, Mapping::read_write);
}

std::shared_ptr<SharedMemory> SharedMemory::create_sparse(const std::string& name,
                                                          std::size_t bytes) {
    return create(name, bytes, true, Mapping::slab);
}

std::shared_ptr<SharedMemory> SharedMemory::create(const std::string& name, std::size_t bytes,
                                                   bool writable_by_peers, Mapping mapping) {
    expect_file_size(name, bytes);
    Descriptor file(out_of_the_way(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    if (!file) fail_memory(name, "memfd_create", bytes);
    const auto length = static_cast<off_t>(bytes);
    // Allocated now: exhaustion is an error here and not a SIGBUS at some later store.
    const int refused = mapping == Mapping::slab ? (ftruncate(file.get(), length) == 0 ? 0 : errno)
                                                 : posix_fallocate(file.get(), 0, length);
    if (refused != 0) {
        errno = refused;
        fail_memory(name, "allocation", bytes);
    }
    std::byte* const data = map_file(file.get(), bytes, mapping, name);
    const int readers_only = writable_by_peers ? 0 : F_SEAL_FUTURE_WRITE;
    if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | readers_only) !=
        0) {
        const int cause = errno;
        munmap(data, bytes);
        throw Error(Errc::device_error, name,
                    fmt::format("sealing failed: {}", std::strerror(cause)),
                    "memory files with seals need Linux 5.1 or newer");
    }
    const FileIdentity identity = inspect_file(file.get(), name).identity;
    std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(file), data, bytes));
    const std::lock_guard lock(mapping_mutex());
    remember(identity, Mapping::read_write, memory);
    return memory;
}

std::shared_ptr<SharedMemory> SharedMemory::map(int file, std::size_t min_bytes, Mapping mapping,
                                                const std::string& what) {
    const FileFacts facts = inspect_file(file, what);
    if (facts.can_shrink)
        throw Error(Errc::protocol_error, what, "the memory file is not sealed against shrinking",
                    "the process that offers it must seal it with F_SEAL_SHRINK");
    if (facts.bytes < min_bytes || facts.bytes == 0)
        throw Error(
            Errc::protocol_error, what,
            fmt::format("the memory file has {} bytes, {} were announced", facts.bytes, min_bytes),
            "use the same version of verbatim on both sides");
    const std::lock_guard lock(mapping_mutex());
    if (auto memory = find_live(facts.identity, min_bytes, mapping)) return memory;
    Descriptor own(fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (!own)
        throw Error(Errc::device_error, what, fmt::format("dup: {}", std::strerror(errno)),
                    "raise the limit of open files (ulimit -n)");
    std::byte* const data = map_file(file, facts.bytes, mapping, what);
    std::shared_ptr<SharedMemory> memory(new SharedMemory(std::move(own), data, facts.bytes));
    remember(facts.identity, mapping, memory);
    return memory;
}

// In a forked child the range may hold something else by now.
SharedMemory::~SharedMemory() {
    if (generation_ == fork_generation()) munmap(data_, bytes_);
}

bool SharedMemory::populate(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    const std::uint64_t first = offset & ~(kPageBytes - 1);
    return madvise(data_ + first, offset + bytes - first, MADV_POPULATE_WRITE) == 0;
}

}  // namespace verbatim::softnic
