// The table of commands.
#include "command_table.hpp"

#include <rdma/ib_user_verbs.h>

#include "../commands/address_commands.hpp"
#include "../commands/device_commands.hpp"
#include "../commands/memory_commands.hpp"
#include "../commands/queue_commands.hpp"
#include "../commands/queue_pair_commands.hpp"
#include "../commands/shared_queue_commands.hpp"
#include "../commands/window_commands.hpp"
#include "../commands/xrc_commands.hpp"

namespace verbatim::uverbs {

CommandHandler command_handler(const Command& command) noexcept {
    struct Entry {
        unsigned number;
        CommandHandler plain, extended;
    };
    static constexpr Entry kEntries[] = {
        {IB_USER_VERBS_CMD_GET_CONTEXT, get_context, nullptr},
        {IB_USER_VERBS_CMD_QUERY_DEVICE, query_device, query_device_extended},
        {IB_USER_VERBS_CMD_QUERY_PORT, query_port, nullptr},
        {IB_USER_VERBS_CMD_ALLOC_PD, alloc_domain, nullptr},
        {IB_USER_VERBS_CMD_DEALLOC_PD, dealloc_domain, nullptr},
        {IB_USER_VERBS_CMD_CREATE_AH, create_address, nullptr},
        {IB_USER_VERBS_CMD_DESTROY_AH, destroy_address, nullptr},
        {IB_USER_VERBS_CMD_REG_MR, register_memory, nullptr},
        {IB_USER_VERBS_CMD_REREG_MR, reregister_memory, nullptr},
        {IB_USER_VERBS_CMD_DEREG_MR, deregister_memory, nullptr},
        {IB_USER_VERBS_CMD_ALLOC_MW, alloc_window, nullptr},
        {IB_USER_VERBS_CMD_DEALLOC_MW, dealloc_window, nullptr},
        {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, create_channel, nullptr},
        {IB_USER_VERBS_CMD_CREATE_CQ, create_completion_queue, create_completion_queue_extended},
        {IB_USER_VERBS_CMD_RESIZE_CQ, resize_completion_queue, nullptr},
        {IB_USER_VERBS_EX_CMD_MODIFY_CQ, nullptr, modify_completion_queue},
        {IB_USER_VERBS_CMD_DESTROY_CQ, destroy_completion_queue, nullptr},
        {IB_USER_VERBS_CMD_CREATE_QP, create_queue_pair, create_queue_pair_extended},
        {IB_USER_VERBS_CMD_QUERY_QP, query_queue_pair, nullptr},
        {IB_USER_VERBS_CMD_MODIFY_QP, modify_queue_pair, modify_queue_pair_extended},
        {IB_USER_VERBS_CMD_DESTROY_QP, destroy_queue_pair, nullptr},
        {IB_USER_VERBS_CMD_CREATE_SRQ, create_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_MODIFY_SRQ, modify_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_QUERY_SRQ, query_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_DESTROY_SRQ, destroy_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_CREATE_XSRQ, create_typed_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_OPEN_XRCD, open_xrc_domain, nullptr},
        {IB_USER_VERBS_CMD_CLOSE_XRCD, close_xrc_domain, nullptr},
        {IB_USER_VERBS_CMD_OPEN_QP, open_queue_pair, nullptr},
    };
    for (const Entry& entry : kEntries)
        if (entry.number == command.number())
            return command.is_extended() ? entry.extended : entry.plain;
    return nullptr;
}

}  // namespace verbatim::uverbs
