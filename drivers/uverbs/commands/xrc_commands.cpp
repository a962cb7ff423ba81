// Commands about XRC domains, and about targets that are open already.
#include <cerrno>

#include "../objects/xrc_objects.hpp"
#include "device_file.hpp"
#include "queue_pair_attributes.hpp"

namespace verbatim::uverbs {

int DeviceFile::open_xrc_domain(const Command& command) {
    const auto wanted = command.core<ib_uverbs_open_xrcd>();
    auto open = std::make_unique<OpenXrcDomain>();
    const int error = uverbs::open_xrc_domain(identity_.index, static_cast<int>(wanted.fd),
                                              static_cast<int>(wanted.oflags), open->domain);
    if (error != 0) return error;
    const std::uint32_t handle = xrc_domains_.add(std::move(open));
    if (handle == 0) return ENOMEM;
    command.reply(ib_uverbs_open_xrcd_resp{handle});
    return 0;
}

int DeviceFile::close_xrc_domain(const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_close_xrcd>().xrcd_handle;
    OpenXrcDomain* const open = xrc_domains_.find(handle);
    if (open == nullptr) return ENOENT;
    if (open->users != 0) return EBUSY;
    xrc_domains_.remove(handle);
    return 0;
}

int DeviceFile::open_queue_pair(const Command& command) {
    const auto wanted = command.core<ib_uverbs_open_qp>();
    OpenXrcDomain* const open = xrc_domains_.find(wanted.pd_handle);
    if (open == nullptr || wanted.qp_type != kXrcTarget) return EINVAL;
    const auto target = open->domain->find_target(wanted.qpn);
    if (target == nullptr) return EINVAL;
    ib_uverbs_create_qp_resp reply{};
    reply.qpn = wanted.qpn;
    reply.qp_handle = add_handle(target, *open, wanted.user_handle);
    if (reply.qp_handle == 0) return ENOMEM;
    // The last of its other handles may have gone meanwhile.
    bool there = false;
    {
        const std::lock_guard lock(target->mutex);
        there = target->pair != nullptr;
    }
    if (there) return command.reply(reply), 0;
    queue_pairs_.remove(reply.qp_handle);
    --open->users;
    return EINVAL;
}

// 0: no more handles.
std::uint32_t DeviceFile::add_handle(const std::shared_ptr<XrcTarget>& target, OpenXrcDomain& open,
                                     std::uint64_t user_handle) {
    auto pair = std::make_unique<QueuePair>();
    pair->type = kXrcTarget;
    pair->async_events = &async_events_;
    pair->user_handle = user_handle;
    pair->open_domain = &open;
    pair->target = target;
    target->add_opener(*pair);
    const std::uint32_t handle = queue_pairs_.add(std::move(pair));
    if (handle != 0) ++open.users;
    return handle;
}

// Before anything that is shared with other device files goes.
void DeviceFile::leave_xrc() noexcept {
    for (const auto& own : own_targets_)
        if (const auto target = own.lock()) target->end();
    shared_queues_.find_if([](SharedQueue& queue) { return queue.leave_xrc(), false; });
}

}  // namespace verbatim::uverbs
