// Allocation and registration of the device's own memory.
#include "device_memory_commands.hpp"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "../objects/memory_regions.hpp"
#include "../protocol/method.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {

int alloc_device_memory(DeviceObjects& device, Method& method) {
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
    if (!device.memory.pool.take(memory->pages, aligned, memory->first)) return ENOMEM;
    const auto page = static_cast<std::uint16_t>(memory->first);
    const std::size_t pages = memory->pages;
    const std::uint32_t handle = device.memory.handles.add(std::move(memory));
    if (handle == 0) {
        device.memory.pool.give(page, pages);
        return ENOMEM;
    }
    method.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX, page);
    method.answer(MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, std::uint64_t{0});
    method.answer_handle(UVERBS_ATTR_ALLOC_DM_HANDLE, handle);
    return 0;
}

int free_device_memory(DeviceObjects& device, Method& method) {
    const std::uint32_t handle = method.handle(UVERBS_ATTR_FREE_DM_HANDLE);
    const DeviceMemory* const memory = device.memory.handles.find(handle);
    if (memory == nullptr) return ENOENT;
    if (memory->users != 0) return EBUSY;
    device.memory.pool.give(memory->first, memory->pages);
    device.memory.handles.remove(handle);
    return 0;
}

// Such regions begin at address 0.
int register_device_memory(DeviceObjects& device, Method& method) {
    const auto offset = method.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET);
    const auto length = method.value<std::uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH);
    const auto access = method.value<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS);
    if (!offset || !length || !access || !method.has(UVERBS_ATTR_REG_DM_MR_HANDLE) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_LKEY) ||
        !method.has_room<std::uint32_t>(UVERBS_ATTR_REG_DM_MR_RESP_RKEY))
        return EINVAL;
    Domain* const domain = device.domains.find(method.handle(UVERBS_ATTR_REG_DM_MR_PD_HANDLE));
    DeviceMemory* const memory =
        device.memory.handles.find(method.handle(UVERBS_ATTR_REG_DM_MR_DM_HANDLE));
    if (domain == nullptr || memory == nullptr) return ENOENT;
    constexpr std::uint32_t kAllowed = 0xf | kZeroBased | 0x3ffu << 20;  // and hints
    if ((*access & kZeroBased) == 0 || (*access & ~kAllowed) != 0 || *offset > memory->bytes ||
        *length > memory->bytes - *offset)
        return EINVAL;
    Wanted wanted{reinterpret_cast<std::uint64_t>(device.memory.pool.at(memory->first)) + *offset,
                  *length, 0, *access & ~kZeroBased};
    if (const int error = check_access(wanted.access); error != 0) return error;
    const std::uint32_t key = make_key(*device.core, wanted, *domain);
    const std::uint32_t handle = device.keys.add({domain, key, false, wanted, memory});
    if (handle == 0) {
        device.core->keys().remove(key);
        return ENOMEM;
    }
    method.answer(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, key);
    method.answer(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, key);
    method.answer_handle(UVERBS_ATTR_REG_DM_MR_HANDLE, handle);
    return 0;
}

}  // namespace verbatim::uverbs
