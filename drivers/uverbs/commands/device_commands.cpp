// What a device says of itself.
#include "device_commands.hpp"

#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include <verbatim/driver/log.hpp>

#include "../protocol/command.hpp"
#include "../protocol/method.hpp"
#include "../tree/port_mtu.hpp"
#include "device_objects.hpp"
#include "queue_commands.hpp"

namespace verbatim::uverbs {
namespace {

// For thread domains, two on each page: as many pages as have offsets in one row.
constexpr std::uint32_t kThreadRegisters = 512;
constexpr std::uint32_t kMaxQueueEntries = 32768;
constexpr std::uint32_t kMaxWqeBytes = 1024, kMaxReceiveBytes = 512;

template <class Bytes>
std::uint64_t big_endian(const Bytes& bytes) {
    std::uint64_t value = 0;
    static_assert(sizeof(Bytes) == sizeof value);
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

ib_uverbs_query_device_resp device_facts(const Identity& identity, const Firmware& firmware) {
    ib_uverbs_query_device_resp facts{};
    facts.fw_ver = std::uint64_t{16} << 32 | 35u << 16 | 2000u;
    facts.node_guid = facts.sys_image_guid = big_endian(identity.guid());
    facts.max_mr_size = ~std::uint64_t{0};
    facts.page_size_cap = ~std::uint64_t{0xfff};
    facts.vendor_id = Identity::kVendorOui;
    facts.vendor_part_id = Identity::kPciDevice;
    facts.max_srq = softnic::kNumbersOfSlot;
    facts.max_mr = facts.max_mw = softnic::kMostKeys - softnic::kFirstKeyIndex;
    facts.max_qp = facts.max_cq = facts.max_pd = facts.max_ah = 1u << 16;
    facts.max_qp_wr = kMaxQueueEntries;
    facts.max_sge = facts.max_sge_rd = facts.max_srq_sge = 30;
    facts.max_cqe = (1u << 22) - 1;
    facts.max_srq_wr = kMaxQueueEntries - 1;
    facts.max_qp_rd_atom = facts.max_qp_init_rd_atom = 16;
    facts.max_res_rd_atom = 1u << 20;
    facts.atomic_cap = 1;  // between the queue pairs of this device
    facts.max_pkeys = 1;
    facts.local_ca_ack_delay = 16;
    facts.phys_port_cnt = 1;
    facts.device_cap_flags = IB_UVERBS_DEVICE_XRC | IB_UVERBS_DEVICE_SYS_IMAGE_GUID |
                             IB_UVERBS_DEVICE_RC_RNR_NAK_GEN | IB_UVERBS_DEVICE_MEM_WINDOW |
                             IB_UVERBS_DEVICE_MEM_WINDOW_TYPE_2B |
                             IB_UVERBS_DEVICE_MEM_MGT_EXTENSIONS;
    firmware.limit(facts);
    return facts;
}

mlx5_ib_query_device_resp provider_facts(std::size_t room) {
    mlx5_ib_query_device_resp facts{};
    facts.response_length = static_cast<std::uint32_t>(std::min(room, sizeof facts));
    return facts;
}

mlx5_ib_alloc_ucontext_resp context_facts(std::uint32_t registers) {
    mlx5_ib_alloc_ucontext_resp facts{};
    facts.qp_tab_size = 1u << 18;
    facts.bf_reg_size = RegisterPages::kRegisterBytes;
    // As many as were asked for: libmlx5 then maps all of them at once and asks for no others.
    facts.tot_bfregs = registers;
    facts.cache_line_size = 64;
    facts.max_sq_desc_sz = kMaxWqeBytes;
    facts.max_rq_desc_sz = kMaxReceiveBytes;
    facts.max_send_wqebb = facts.max_recv_wr = kMaxQueueEntries;
    facts.max_srq_recv_wr = kMaxQueueEntries - 1;
    facts.num_ports = 1;
    facts.response_length = sizeof facts;
    facts.cqe_version = 1;
    facts.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE | MLX5_USER_CMDS_SUPP_UHW_CREATE_AH;
    facts.eth_min_inline = MLX5_USER_INLINE_MODE_NONE;
    facts.log_uar_size = 12;
    facts.num_uars_per_page = 1;
    facts.num_dyn_bfregs = kThreadRegisters;
    return facts;
}

}  // namespace

int get_context(DeviceObjects& device, const Command& command) {
    const auto wanted = command.provider<ib_uverbs_get_context, mlx5_ib_alloc_ucontext_req_v2>();
    constexpr std::uint32_t kMostRegisters = 512;
    constexpr std::size_t kFirstVersion = sizeof(mlx5_ib_alloc_ucontext_req);
    const std::size_t bytes = command.provider_bytes<ib_uverbs_get_context>();
    if (bytes < kFirstVersion || wanted.total_num_bfregs == 0) return EINVAL;
    if ((wanted.flags & ~std::uint32_t{MLX5_IB_ALLOC_UCTX_DEVX}) != 0) return EINVAL;
    if (wanted.comp_mask != 0 || wanted.reserved0 != 0 || wanted.reserved1 != 0 ||
        wanted.reserved2 != 0)
        return EOPNOTSUPP;
    if (wanted.total_num_bfregs > kMostRegisters) return ENOMEM;
    if (wanted.num_low_latency_bfregs >= wanted.total_num_bfregs) return EINVAL;
    // libmlx5 asks for DevX first and then goes on without it.
    if ((wanted.flags & MLX5_IB_ALLOC_UCTX_DEVX) != 0) return EPERM;
    if (std::exchange(device.context.made, true)) return EINVAL;
    device.registers.expect_mappings();
    ib_uverbs_get_context_resp reply{};
    reply.async_fd = static_cast<std::uint32_t>(device.context.async_events.programs_end());
    reply.num_comp_vectors = 1;
    command.reply(reply, context_facts(wanted.total_num_bfregs));
    return 0;
}

int query_device(DeviceObjects& device, const Command& command) {
    const std::size_t core = sizeof(ib_uverbs_query_device_resp);
    command.reply(device_facts(device.facts.identity, device.facts.firmware),
                  provider_facts(command.reply_bytes() - core));
    return 0;
}

int query_device_extended(DeviceObjects& device, const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_query_device>();
    if (wanted.comp_mask != 0 || wanted.reserved != 0) return EINVAL;
    ib_uverbs_ex_query_device_resp reply{};
    reply.base = device_facts(device.facts.identity, device.facts.firmware);
    // Memory is found when it is touched; the program's whole memory may be one region.
    reply.odp_caps.general_caps = 3;                       // enum ibv_odp_general_caps
    reply.odp_caps.per_transport_caps.rc_odp_caps = 0x3f;  // enum ibv_odp_transport_cap_bits
    reply.odp_caps.per_transport_caps.uc_odp_caps = 0x27;  // no reads and atomics
    reply.odp_caps.per_transport_caps.ud_odp_caps = 0x23;  // sends and receives
    reply.xrc_odp_caps = 0x3f;
    // Completions are stamped in nanoseconds.
    reply.timestamp_mask = ~std::uint64_t{0};
    reply.hca_core_clock = 1000000;  // kHz
    reply.cq_moderation_caps = {kMaxModerationCount, kMaxModerationPeriod, 0};
    reply.max_dm_size = DeviceMemoryPool::kBytes;
    reply.response_length =
        static_cast<std::uint32_t>(std::min(command.reply_bytes(), sizeof reply));
    command.reply(reply, provider_facts(command.provider_reply_bytes()));
    return 0;
}

int query_port(DeviceObjects& device, const Command& command) {
    if (command.core<ib_uverbs_query_port>().port_num != 1) return EINVAL;
    ib_uverbs_query_port_resp facts{};
    facts.max_msg_sz = 1u << 30;
    facts.gid_tbl_len = Identity::kGids;
    facts.pkey_tbl_len = 1;
    facts.state = 4;  // active
    facts.max_mtu = mtu_code(4096);
    facts.active_mtu = mtu_code(device.facts.mtu);
    facts.max_vl_num = 1;
    facts.active_width = 2;   // 4 lanes
    facts.active_speed = 32;  // EDR
    facts.phys_state = 5;     // link up
    facts.link_layer = 2;     // Ethernet
    command.reply(facts);
    return 0;
}

// Asked by contexts that are imported (ibv_import_device), and by no others.
int query_context(DeviceObjects&, Method&) {
    refuse_import();
    return EOPNOTSUPP;
}

void refuse_import() noexcept {
    log::error(
        "ibv_import_device: the software NIC cannot be imported; open it with ibv_open_device");
}

}  // namespace verbatim::uverbs
