// Allocation and registration of the device's own memory.
#include "device_memory.hpp"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <verbatim/driver/error.hpp>

#include "device_file.hpp"

namespace verbatim::uverbs {

DeviceMemoryPool::DeviceMemoryPool(int file) {
    void* const memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, kFileOffset);
    if (memory == MAP_FAILED)
        throw Error(Errc::out_of_memory, "software NIC under rdma-core", "no device memory",
                    "free memory or address space");
    memory_ = static_cast<std::byte*>(memory);
}

DeviceMemoryPool::~DeviceMemoryPool() { munmap(memory_, kBytes); }

bool DeviceMemoryPool::take(std::size_t pages, std::size_t alignment, std::size_t& first) noexcept {
    for (first = 0; first + pages <= kPages; first += alignment) {
        const std::span row(taken_.data() + first, pages);
        if (std::ranges::find(row, true) != row.end()) continue;
        std::ranges::fill(row, true);
        std::memset(at(first), 0, pages * kPage);
        return true;
    }
    return false;
}

void DeviceMemoryPool::give(std::size_t first, std::size_t pages) noexcept {
    std::fill_n(taken_.begin() + static_cast<std::ptrdiff_t>(first), pages, false);
}

int DeviceFile::alloc_device_memory(Method& method) {
    constexpr std::uint32_t kPageLog2 = 12, kMaxAlignment = 20;
    const auto bytes = method.value<std::uint64_t>(UVERBS_ATTR_ALLOC_DM_LENGTH);
    const auto alignment = method.value<std::uint32_t>(UVERBS_ATTR_ALLOC_DM_ALIGNMENT);
    if (!bytes || !alignment || !method.has(UVERBS_ATTR_ALLOC_DM_HANDLE) ||
        !method.has_room<std::uint16_t>(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX) ||
        !method.has_room<std::uint64_t>(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET))
        return EINVAL;
    // The other types are of flow steering.
    const auto type = method.value<std::uint64_t>(MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE);
    if (type.value_or(MLX5_IB_UAPI_DM_TYPE_MEMIC) != MLX5_IB_UAPI_DM_TYPE_MEMIC) return EOPNOTSUPP;
    if (*bytes == 0 || *bytes > DeviceMemoryPool::kBytes || *alignment > kMaxAlignment)
        return EINVAL;
    auto memory = std::make_unique<DeviceMemory>();
    memory->bytes = *bytes;
    memory->pages = (*bytes + DeviceMemoryPool::kPage - 1) / DeviceMemoryPool::kPage;
    const std::size_t aligned = std::size_t{1} << (std::max(*alignment, kPageLog2) - kPageLog2);
    if (!device_memory_pool_.take(memory->pages, aligned, memory->first)) return ENOMEM;
    const auto page = static_cast<std::uint16_t>(memory->first);
    const std::size_t pages = memory->pages;
    const std::uint32_t handle = device_memories_.add(std::move(memory));
    if (handle == 0) {
        device_memory_pool_.give(page, pages);
        return ENOMEM;
    }
    method.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page);
    method.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, std::uint64_t{0});
    method.answer_handle(UVERBS_ATTR_ALLOC_DM_HANDLE, handle);
    return 0;
}

int DeviceFile::free_device_memory(Method& method) {
    const std::uint32_t handle = method.handle(UVERBS_ATTR_FREE_DM_HANDLE);
    const DeviceMemory* const memory = device_memories_.find(handle);
    if (memory == nullptr) return ENOENT;
    if (memory->users != 0) return EBUSY;
    device_memory_pool_.give(memory->first, memory->pages);
    device_memories_.remove(handle);
    return 0;
}

// Such regions begin at address 0.
int DeviceFile::register_device_memory(Method& method) {
    constexpr std::uint32_t kZeroBased = 1u << 5;
    const auto offset = method.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET);
    const auto length = method.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH);
    const auto access = method.value<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS);
    if (!offset || !length || !access || !method.has(UVERBS_ATTR_REG_DM_MR_HANDLE) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_LKEY) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_RKEY))
        return EINVAL;
    Domain* const domain = domains_.find(method.handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE));
    DeviceMemory* const memory =
        device_memories_.find(method.handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE));
    if (domain == nullptr || memory == nullptr) return ENOENT;
    constexpr std::uint32_t kAllowed = 0xf | kZeroBased | 0x3ffu << 20;  // and hints
    if ((*access & kZeroBased) == 0 || (*access & ~kAllowed) != 0 || *offset > memory->bytes ||
        *length > memory->bytes - *offset)
        return EINVAL;
    Wanted wanted{reinterpret_cast<std::uint64_t>(device_memory_pool_.at(memory->first)) + *offset,
                  *length, 0, *access & ~kZeroBased};
    if (const int error = check_access(wanted.access); error != 0) return error;
    const std::uint32_t key = make_key(wanted, *domain);
    const std::uint32_t handle = add_key({domain, key, false, wanted, memory});
    if (handle == 0) {
        core_->keys().remove(key);
        return ENOMEM;
    }
    method.answer(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, key);
    method.answer(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, key);
    method.answer_handle(UVERBS_ATTR_REG_DM_MR_HANDLE, handle);
    return 0;
}

}  // namespace verbatim::uverbs
