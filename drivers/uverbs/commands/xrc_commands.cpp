// Commands about XRC domains, and about targets that are open already.
#include "xrc_commands.hpp"

#include <cerrno>
#include <memory>
#include <mutex>
#include <utility>

#include "../protocol/command.hpp"
#include "../protocol/queue_pair_attributes.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {

int open_xrc_domain(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_open_xrcd>();
    auto open = std::make_unique<OpenXrcDomain>();
    const int error =
        uverbs::open_xrc_domain(device.facts.identity.index, static_cast<int>(wanted.fd),
                                static_cast<int>(wanted.oflags), open->domain);
    if (error != 0) return error;
    const std::uint32_t handle = device.xrc.domains.add(std::move(open));
    if (handle == 0) return ENOMEM;
    command.reply(ib_uverbs_open_xrcd_resp{handle});
    return 0;
}

int close_xrc_domain(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_close_xrcd>().xrcd_handle;
    OpenXrcDomain* const open = device.xrc.domains.find(handle);
    if (open == nullptr) return ENOENT;
    if (open->users != 0) return EBUSY;
    device.xrc.domains.remove(handle);
    return 0;
}

int open_queue_pair(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_open_qp>();
    OpenXrcDomain* const open = device.xrc.domains.find(wanted.pd_handle);
    if (open == nullptr || wanted.qp_type != kXrcTarget) return EINVAL;
    const auto target = open->domain->find_target(wanted.qpn);
    if (target == nullptr) return EINVAL;
    ib_uverbs_create_qp_resp reply{};
    reply.qpn = wanted.qpn;
    reply.qp_handle = add_target_handle(device, target, *open, wanted.user_handle);
    if (reply.qp_handle == 0) return ENOMEM;
    // The last of its other handles may have gone meanwhile.
    bool there = false;
    {
        const std::lock_guard lock(target->mutex);
        there = target->pair != nullptr;
    }
    if (there) return command.reply(reply), 0;
    device.queue_pairs.remove(reply.qp_handle);
    --open->users;
    return EINVAL;
}

std::uint32_t add_target_handle(DeviceObjects& device, const std::shared_ptr<XrcTarget>& target,
                                OpenXrcDomain& open, std::uint64_t user_handle) {
    auto pair = std::make_unique<QueuePair>();
    pair->type = kXrcTarget;
    pair->async_events = &device.context.async_events;
    pair->user_handle = user_handle;
    pair->open_domain = &open;
    pair->target = target;
    target->add_opener(*pair);
    const std::uint32_t handle = device.queue_pairs.add(std::move(pair));
    if (handle != 0) ++open.users;
    return handle;
}

}  // namespace verbatim::uverbs
