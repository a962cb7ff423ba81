// The table of methods.
#include "method_table.hpp"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "../commands/address_commands.hpp"
#include "../commands/device_commands.hpp"
#include "../commands/device_memory_commands.hpp"
#include "../commands/memory_commands.hpp"

namespace verbatim::uverbs {

int execute_method(DeviceObjects& device, Method& method) {
    struct MethodEntry {
        std::uint16_t object, number;
        int (*handler)(DeviceObjects&, Method&);
        std::array<std::uint16_t, 8> attributes;  // 0, which all have, where there are fewer
    };
    static constexpr MethodEntry kEntries[] = {
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_CONTEXT,
         query_context,
         {UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
          MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX}},
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_GID_ENTRY,
         query_gid_entry,
         {UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
          UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY}},
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_GID_TABLE,
         query_gid_table,
         {UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
          UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES}},
        {UVERBS_OBJECT_DM,
         UVERBS_METHOD_DM_ALLOC,
         alloc_device_memory,
         {UVERBS_ATTR_ALLOC_DM_HANDLE, UVERBS_ATTR_ALLOC_DM_LENGTH, UVERBS_ATTR_ALLOC_DM_ALIGNMENT,
          MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
          MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE}},
        {UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, free_device_memory, {UVERBS_ATTR_FREE_DM_HANDLE}},
        {UVERBS_OBJECT_MR,
         UVERBS_METHOD_DM_MR_REG,
         register_device_memory,
         {UVERBS_ATTR_REG_DM_MR_HANDLE, UVERBS_ATTR_REG_DM_MR_OFFSET, UVERBS_ATTR_REG_DM_MR_LENGTH,
          UVERBS_ATTR_REG_DM_MR_PD_HANDLE, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS,
          UVERBS_ATTR_REG_DM_MR_DM_HANDLE, UVERBS_ATTR_REG_DM_MR_RESP_LKEY,
          UVERBS_ATTR_REG_DM_MR_RESP_RKEY}},
        {UVERBS_OBJECT_MR,
         UVERBS_METHOD_ADVISE_MR,
         advise_memory,
         {UVERBS_ATTR_ADVISE_MR_PD_HANDLE, UVERBS_ATTR_ADVISE_MR_ADVICE,
          UVERBS_ATTR_ADVISE_MR_FLAGS, UVERBS_ATTR_ADVISE_MR_SGE_LIST}},
    };
    for (const MethodEntry& entry : kEntries)
        if (entry.object == method.object() && entry.number == method.number())
            return method.asks_only(entry.attributes) ? entry.handler(device, method)
                                                      : EPROTONOSUPPORT;
    return device.facts.firmware.answer(method);
}

}  // namespace verbatim::uverbs
