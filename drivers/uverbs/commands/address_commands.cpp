// GIDs and address handles.
#include "address_commands.hpp"

#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "../protocol/command.hpp"
#include "../protocol/method.hpp"
#include "device_objects.hpp"

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

int query_gid_entry(DeviceObjects& device, Method& method) {
    const auto port = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_PORT);
    const auto index = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS);
    if (port != 1u || !index || *index >= std::uint64_t{Identity::kGids} ||
        flags.value_or(0) != 0 ||
        !method.has_room<ib_uverbs_gid_entry>(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY))
        return EINVAL;
    method.answer(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY,
                  gid_entry(device.facts.identity, static_cast<int>(*index)));
    return 0;
}

int query_gid_table(DeviceObjects& device, Method& method) {
    const auto stride = method.value<std::uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS);
    const std::span<std::byte> room = method.room(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    if (!stride || *stride == 0 || flags.value_or(0) != 0 ||
        !method.has_room<std::uint64_t>(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES) ||
        room.size() / *stride < std::size_t{Identity::kGids})
        return EINVAL;
    for (int i = 0; i < Identity::kGids; ++i) {
        const ib_uverbs_gid_entry entry = gid_entry(device.facts.identity, i);
        const std::span<std::byte> to = room.subspan(static_cast<std::size_t>(i) * *stride);
        std::memcpy(to.data(), &entry, std::min<std::size_t>(sizeof entry, *stride));
    }
    method.mark(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
    method.answer(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, std::uint64_t{Identity::kGids});
    return 0;
}

int create_address(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_create_ah>();
    Domain* const domain = device.domains.find(wanted.pd_handle);
    // Addresses over Ethernet have a global part.
    if (domain == nullptr || wanted.attr.port_num != 1 || wanted.attr.is_global == 0 ||
        wanted.attr.grh.sgid_index >= Identity::kGids)
        return EINVAL;
    ib_uverbs_create_ah_resp reply{};
    constexpr std::size_t kRoom =
        offsetof(mlx5_ib_create_ah_resp, dmac) + sizeof(mlx5_ib_create_ah_resp::dmac);
    if (command.reply_bytes() < sizeof reply + kRoom) return EINVAL;
    reply.ah_handle = device.addresses.add(std::make_unique<Address>(Address{domain}));
    if (reply.ah_handle == 0) return ENOMEM;
    ++domain->users;
    mlx5_ib_create_ah_resp provider{};
    provider.response_length = sizeof provider;
    const auto mac = device.facts.identity.mac();
    std::copy(mac.begin(), mac.end(), provider.dmac);
    command.reply(reply, provider);
    return 0;
}

int destroy_address(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_destroy_ah>().ah_handle;
    const Address* const address = device.addresses.find(handle);
    if (address == nullptr) return ENOENT;
    --address->domain->users;
    device.addresses.remove(handle);
    return 0;
}

}  // namespace verbatim::uverbs
