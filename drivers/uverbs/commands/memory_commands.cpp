// Registration of the program's memory.
#include "memory_commands.hpp"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

#include "../../softnic/host/fault_guard.hpp"
#include "../../softqueue/page.hpp"
#include "../objects/memory_regions.hpp"
#include "../protocol/command.hpp"
#include "../protocol/method.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {

int alloc_domain(DeviceObjects& device, const Command& command) {
    ib_uverbs_alloc_pd_resp reply{};
    reply.pd_handle = device.domains.add(std::make_unique<Domain>());
    if (reply.pd_handle == 0) return ENOMEM;
    device.domains.find(reply.pd_handle)->number = reply.pd_handle;
    command.reply(reply, mlx5_ib_alloc_pd_resp{reply.pd_handle});
    return 0;
}

int dealloc_domain(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dealloc_pd>().pd_handle;
    const Domain* const domain = device.domains.find(handle);
    if (domain == nullptr) return ENOENT;
    if (domain->users != 0) return EBUSY;
    device.domains.remove(handle);
    return 0;
}

int register_memory(DeviceObjects& device, const Command& command) {
    const auto given = command.core<ib_uverbs_reg_mr>();
    const Wanted wanted{given.start, given.length, given.hca_va, given.access_flags};
    if (const int error = check_memory(wanted); error != 0) return error;
    Domain* const domain = device.domains.find(given.pd_handle);
    if (domain == nullptr) return EINVAL;
    if (!make_present(wanted)) return EFAULT;
    softnic::guard_against_faults();  // the program may have set handlers meanwhile
    ib_uverbs_reg_mr_resp reply{};
    Key region = make_region(*device.core, wanted, *domain);
    reply.lkey = reply.rkey = region.key;
    reply.mr_handle = device.keys.add(region);
    if (reply.mr_handle == 0) {
        forget_region(*device.core, region);
        return ENOMEM;
    }
    command.reply(reply);
    return 0;
}

// The domain, and most access, change with the region's keys as they are.
int reregister_memory(DeviceObjects& device, const Command& command) {
    constexpr std::uint32_t kTranslation = 1, kDomain = 2, kAccess = 4;  // ibv_rereg_mr_flags
    const auto change = command.core<ib_uverbs_rereg_mr>();
    const std::uint32_t flags = change.flags;
    if (flags == 0) return EINVAL;
    if ((flags & ~(kTranslation | kDomain | kAccess)) != 0) return EOPNOTSUPP;
    if ((flags & kTranslation) != 0 && (change.start == 0 || change.hca_va == 0)) return EINVAL;
    Key* const region = device.keys.find(change.mr_handle);
    if (region == nullptr) return ENOENT;
    if (region->window || region->device_memory != nullptr) return EINVAL;
    Wanted wanted = region->made;
    if ((flags & kTranslation) != 0)
        wanted.start = change.start, wanted.length = change.length, wanted.name = change.hca_va;
    if ((flags & kAccess) != 0) wanted.access = change.access_flags;
    Domain* const domain =
        (flags & kDomain) != 0 ? device.domains.find(change.pd_handle) : region->domain;
    if (domain == nullptr) return EINVAL;
    if (const int error = check_memory(wanted); error != 0) return error;
    if (!make_present(wanted)) return EFAULT;
    if (region->revoked) return EBUSY;  // a peer is inside
    const bool in_place = (flags & kTranslation) == 0 && changes_in_place(*region, wanted);
    const int error = in_place ? change_in_place(*device.core, *region, wanted, *domain)
                               : replace_region(*device.core, *region, wanted, *domain);
    if (error != 0) return error;
    --region->domain->users, ++domain->users;
    region->domain = domain;
    ib_uverbs_rereg_mr_resp reply{};
    reply.lkey = reply.rkey = region->key;
    command.reply(reply);
    return 0;
}

int deregister_memory(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dereg_mr>().mr_handle;
    Key* const region = device.keys.find(handle);
    if (region == nullptr) return ENOENT;
    if (region->window) return EINVAL;
    // A window is open onto it.
    if (!region->revoked && !device.core->keys().retire(region->key)) return EBUSY;
    if (!revoke_region(*device.core, *region)) return EBUSY;
    forget_region(*device.core, *region);
    device.keys.remove(handle);
    return 0;
}

namespace {

// Memory on demand that will soon be used. A hint that nothing is the worse for, but for one whose
// end is waited for.
int advise(const DeviceObjects& device, const Domain& domain, std::uint64_t advice, bool flush,
           const ib_uverbs_sge& range) {
    const bool writes = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    const Key* const region = device.keys.find_if([&](const Key& key) {
        return key.key == range.lkey && (key.window || (key.made.access & kOnDemand) != 0);
    });
    if (region == nullptr) return ENOENT;
    if (region->window) return EINVAL;
    if (region->domain != &domain) return EPERM;
    if (writes && (region->made.access & kWritable) == 0) return EPERM;
    const Wanted& made = region->made;
    // The region's last page counts as a whole; nobody waits for what is not flushed.
    const std::uint64_t last = made.start + made.length,
                        rest = (softnic::kPageBytes - last % softnic::kPageBytes) %
                               softnic::kPageBytes;
    const std::uint64_t most = made.length + std::min(rest, ~made.length);
    if (range.addr < made.name || range.length > most ||
        range.addr - made.name > most - range.length || range.addr - made.name == most)
        return flush ? EFAULT : 0;
    if (advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT || range.length == 0) return 0;
    const std::uint64_t start = range.addr - made.name + made.start,
                        first = start & ~(softnic::kPageBytes - 1);
    const bool there = madvise(reinterpret_cast<void*>(first), start + range.length - first,
                               writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0;
    return there || !flush ? 0 : EFAULT;
}

}  // namespace

int advise_memory(DeviceObjects& device, Method& method) {
    const Domain* const domain =
        device.domains.find(method.handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE));
    const auto advice = method.value<std::uint64_t>(UVERBS_ATTR_ADVISE_MR_ADVICE);
    const auto flags = method.value<std::uint32_t>(UVERBS_ATTR_ADVISE_MR_FLAGS);
    std::span<const std::byte> list = method.bytes(UVERBS_ATTR_ADVISE_MR_SGE_LIST);
    if (domain == nullptr) return ENOENT;
    if (!advice || !flags || *flags > IB_UVERBS_ADVISE_MR_FLAG_FLUSH || list.empty() ||
        list.size() % sizeof(ib_uverbs_sge) != 0)
        return EINVAL;
    if (*advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return EOPNOTSUPP;
    for (; !list.empty(); list = list.subspan(sizeof(ib_uverbs_sge))) {
        ib_uverbs_sge range;
        std::memcpy(&range, list.data(), sizeof range);
        if (const int error = advise(device, *domain, *advice, *flags != 0, range); error != 0)
            return error;
    }
    return 0;
}

}  // namespace verbatim::uverbs
