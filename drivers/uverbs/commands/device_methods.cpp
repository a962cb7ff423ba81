// What comes by ioctl(): which method goes where, and the methods about the port's addresses. What
// is not here is unknown (EPROTONOSUPPORT), after which libibverbs writes a command if it has one;
// ENOTTY would turn every method off for the whole process.
#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include <algorithm>
#include <cerrno>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "device_file.hpp"
#include "open_files.hpp"

namespace verbatim::uverbs {
namespace {

ib_uverbs_gid_entry gid_entry(const Identity& identity, int index) {
    ib_uverbs_gid_entry entry{};
    const auto gid = identity.gid(index);
    static_assert(sizeof gid == sizeof entry.gid);
    std::memcpy(entry.gid, gid.data(), sizeof entry.gid);
    entry.gid_index = static_cast<std::uint32_t>(index);
    entry.port_num = 1;
    entry.gid_type =
        Identity::first_version(index) ? IB_UVERBS_GID_TYPE_ROCE_V1 : IB_UVERBS_GID_TYPE_ROCE_V2;
    entry.netdev_ifindex = if_nametoindex(Identity::kInterface);
    return entry;
}

}  // namespace

int DeviceFile::invoke(ib_uverbs_ioctl_hdr& header) noexcept try {
    if (inherited()) return EIO;
    Method method(header);
    if (!method.well_formed()) return EINVAL;
    const std::lock_guard lock(mutex_);
    return dispatch(method);
} catch (const Error& error) {
    log::error("{}", error.what());
    return ENOMEM;
} catch (const std::exception& error) {
    log::error("software NIC under rdma-core: {}", error.what());
    return ENOMEM;
}

// Under mutex_.
int DeviceFile::dispatch(Method& method) {
    using D = DeviceFile;
    struct MethodEntry {
        std::uint16_t object, number;
        int (DeviceFile::*handler)(Method&);
        std::array<std::uint16_t, 8> attributes;  // 0, which all have, where there are fewer
    };
    static constexpr MethodEntry kEntries[] = {
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_CONTEXT,
         &D::query_context,
         {UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT,
          MLX5_IB_ATTR_QUERY_CONTEXT_RESP_UCTX}},
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_GID_ENTRY,
         &D::query_gid_entry,
         {UVERBS_ATTR_QUERY_GID_ENTRY_PORT, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX,
          UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY}},
        {UVERBS_OBJECT_DEVICE,
         UVERBS_METHOD_QUERY_GID_TABLE,
         &D::query_gid_table,
         {UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
          UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES}},
        {UVERBS_OBJECT_DM,
         UVERBS_METHOD_DM_ALLOC,
         &D::alloc_device_memory,
         {UVERBS_ATTR_ALLOC_DM_HANDLE, UVERBS_ATTR_ALLOC_DM_LENGTH, UVERBS_ATTR_ALLOC_DM_ALIGNMENT,
          MLX5_IB_ATTR_ALLOC_DM_RESP_START_OFFSET, MLX5_IB_ATTR_ALLOC_DM_RESP_PAGE_INDEX,
          MLX5_IB_ATTR_ALLOC_DM_REQ_TYPE}},
        {UVERBS_OBJECT_DM,
         UVERBS_METHOD_DM_FREE,
         &D::free_device_memory,
         {UVERBS_ATTR_FREE_DM_HANDLE}},
        {UVERBS_OBJECT_MR,
         UVERBS_METHOD_DM_MR_REG,
         &D::register_device_memory,
         {UVERBS_ATTR_REG_DM_MR_HANDLE, UVERBS_ATTR_REG_DM_MR_OFFSET, UVERBS_ATTR_REG_DM_MR_LENGTH,
          UVERBS_ATTR_REG_DM_MR_PD_HANDLE, UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS,
          UVERBS_ATTR_REG_DM_MR_DM_HANDLE, UVERBS_ATTR_REG_DM_MR_RESP_LKEY,
          UVERBS_ATTR_REG_DM_MR_RESP_RKEY}},
        {UVERBS_OBJECT_MR,
         UVERBS_METHOD_ADVISE_MR,
         &D::advise_memory,
         {UVERBS_ATTR_ADVISE_MR_PD_HANDLE, UVERBS_ATTR_ADVISE_MR_ADVICE,
          UVERBS_ATTR_ADVISE_MR_FLAGS, UVERBS_ATTR_ADVISE_MR_SGE_LIST}},
    };
    for (const MethodEntry& entry : kEntries)
        if (entry.object == method.object() && entry.number == method.number())
            return method.asks_only(entry.attributes) ? (this->*entry.handler)(method)
                                                      : EPROTONOSUPPORT;
    return firmware_.answer(method);
}

// Asked by contexts that are imported (ibv_import_device), and by no others.
int DeviceFile::query_context(Method&) {
    refuse_import();
    return EOPNOTSUPP;
}

int DeviceFile::query_gid_entry(Method& method) {
    const auto port = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
    const auto index = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS);
    if (port != 1u || !index || *index >= std::uint64_t{Identity::kGids} ||
        flags.value_or(0) != 0 ||
        !method.has_room<ib_uverbs_gid_entry>(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY))
        return EINVAL;
    method.answer(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
                  gid_entry(identity_, static_cast<int>(*index)));
    return 0;
}

int DeviceFile::query_gid_table(Method& method) {
    const auto stride = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS);
    const std::span<std::byte> room = method.room(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    if (!stride || *stride == 0 || flags.value_or(0) != 0 ||
        !method.has_room<std::uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES) ||
        room.size() / *stride < std::size_t{Identity::kGids})
        return EINVAL;
    for (int i = 0; i < Identity::kGids; ++i) {
        const ib_uverbs_gid_entry entry = gid_entry(identity_, i);
        const std::span<std::byte> to = room.subspan(static_cast<std::size_t>(i) * *stride);
        std::memcpy(to.data(), &entry, std::min<std::size_t>(sizeof entry, *stride));
    }
    method.mark(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    method.answer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, std::uint64_t{Identity::kGids});
    return 0;
}

}  // namespace verbatim::uverbs
