#include <verbatim/objects/private_block.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/graph/image.hpp>

namespace verbatim::objects {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFirstGrowth = std::uint64_t{1} << 20;

[[noreturn]] void refuse_memory(std::uint64_t bytes, int error) {
    throw Error(Errc::out_of_memory, "memory of a graph",
                fmt::format("{} bytes could not be mapped: {}", bytes, std::strerror(error)),
                "free memory, or raise the limit of the process (ulimit -v)");
}

struct Mapping {
    std::uint64_t bytes = 0;
    int protection = PROT_NONE;
    int flags = MAP_PRIVATE;
    std::uint64_t base = 0;
};

// Null: another mapping is at the base.
std::byte* map_memory(const Mapping& mapping, int file, std::uint64_t offset) {
    int flags = mapping.flags;
    if (mapping.base != 0) flags |= MAP_FIXED_NOREPLACE;
    auto* const base = reinterpret_cast<void*>(mapping.base);
    void* const memory =
        mmap(base, mapping.bytes, mapping.protection, flags, file, static_cast<off_t>(offset));
    if (memory == MAP_FAILED) {
        if (mapping.base != 0 && (errno == EEXIST || errno == EPERM)) return nullptr;
        refuse_memory(mapping.bytes, errno);
    }
    if (mapping.base != 0 && memory != base) {  // a kernel that does not know the flag
        munmap(memory, mapping.bytes);
        return nullptr;
    }
    return static_cast<std::byte*>(memory);
}

}  // namespace

PrivateBlock PrivateBlock::reserve(std::uint64_t most_bytes, std::uint64_t base) {
    const std::uint64_t bytes = round_to(std::max<std::uint64_t>(most_bytes, 1), kPage);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    std::byte* const data = map_memory({bytes, PROT_NONE, kFlags, base}, -1, 0);
    return data == nullptr ? PrivateBlock() : PrivateBlock(data, bytes, 0);
}

PrivateBlock PrivateBlock::map(const FilePart& part, bool writable, std::uint64_t base) {
    const std::uint64_t bytes = round_to(std::max<std::uint64_t>(part.bytes, 1), kPage);
    const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    std::byte* const data =
        map_memory({bytes, protection, MAP_PRIVATE | MAP_NORESERVE, base}, part.file, part.offset);
    return data == nullptr ? PrivateBlock() : PrivateBlock(data, bytes, bytes);
}

PrivateBlock::~PrivateBlock() {
    if (data_ != nullptr) munmap(data_, reserved_);
}

void PrivateBlock::grow_to(std::uint64_t bytes) {
    if (bytes <= usable_) return;
    if (bytes > reserved_) refuse_memory(bytes, ENOMEM);
    // More than asked, so that few calls are made.
    const std::uint64_t more = std::max(usable_ * 2, kFirstGrowth);
    const std::uint64_t end = std::min(std::max(round_to(bytes, kPage), more), reserved_);
    if (mprotect(data_ + usable_, end - usable_, PROT_READ | PROT_WRITE) != 0)
        refuse_memory(end, errno);
    usable_ = end;
}

void PrivateBlock::trim_to(std::uint64_t bytes) noexcept {
    const std::uint64_t end = round_to(std::max<std::uint64_t>(bytes, 1), kPage);
    if (end >= reserved_) return;
    munmap(data_ + end, reserved_ - end);
    reserved_ = end;
    usable_ = std::min(usable_, end);
}

void PrivateBlock::make_read_only() noexcept { mprotect(data_, usable_, PROT_READ); }

}  // namespace verbatim::objects
