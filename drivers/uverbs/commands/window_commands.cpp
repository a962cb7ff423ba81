// Memory windows: a program binds and closes them by work requests.
#include "window_commands.hpp"

#include <rdma/mlx5-abi.h>

#include <cerrno>
#include <cstdint>

#include "../../softnic/keys/revocation.hpp"
#include "../protocol/command.hpp"
#include "device_objects.hpp"

namespace verbatim::uverbs {
namespace {

// ib_uverbs_alloc_mw::mw_type (enum ibv_mw_type).
enum : std::uint8_t { kDomainWindow = 1, kQueuePairWindow = 2 };

}  // namespace

// A window leads nowhere until it is bound.
int alloc_window(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_alloc_mw>();
    const auto provider = command.provider<ib_uverbs_alloc_mw, mlx5_ib_alloc_mw>();
    Domain* const domain = device.domains.find(wanted.pd_handle);
    if (domain == nullptr) return EINVAL;
    if (wanted.mw_type != kDomainWindow && wanted.mw_type != kQueuePairWindow) return EINVAL;
    if (provider.comp_mask != 0 || provider.reserved1 != 0 || provider.reserved2 != 0 ||
        !command.provider_ends<ib_uverbs_alloc_mw, mlx5_ib_alloc_mw>())
        return EOPNOTSUPP;
    ib_uverbs_alloc_mw_resp reply{};
    reply.rkey = device.core->keys().add_window(
        wanted.mw_type == kDomainWindow ? WindowType::domain : WindowType::queue_pair,
        domain->number);
    reply.mw_handle = device.keys.add({domain, reply.rkey, true, {}});
    if (reply.mw_handle == 0) {
        device.core->keys().remove_window(reply.rkey);
        return ENOMEM;
    }
    command.reply(reply);
    return 0;
}

int dealloc_window(DeviceObjects& device, const Command& command) {
    const std::uint32_t handle = command.core<ib_uverbs_dealloc_mw>().mw_handle;
    const Key* const window = device.keys.find(handle);
    if (window == nullptr) return ENOENT;
    if (!window->window) return EINVAL;
    device.core->keys().remove_window(window->key);
    softnic::Revocation(device.core->keys().accesses()).wait();
    device.keys.remove(handle);
    return 0;
}

}  // namespace verbatim::uverbs
