// Commands about the device, and which command goes where.
#include "device_file.hpp"

#include <rdma/mlx5-abi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>
#include <verbatim/uverbs/device_tree.hpp>

#include "../objects/memory_survey.hpp"
#include "../tree/environment_size.hpp"
#include "../tree/port_mtu.hpp"
#include "command_rules.hpp"

namespace verbatim::uverbs {
namespace {

// For thread domains, two on each page: as many pages as have offsets in one row.
constexpr std::uint32_t kThreadRegisters = 512;
constexpr std::uint32_t kMaxQueueEntries = 32768;
constexpr std::uint32_t kMaxWqeBytes = 1024, kMaxReceiveBytes = 512;

// "trap" is the default; what cannot be done is not an error.
bool may_trap() {
    const char* const wanted = std::getenv(DeviceTree::kDoorbellsVariable);
    if (wanted == nullptr || std::string_view(wanted) == "trap") return true;
    if (std::string_view(wanted) == "nap") return false;
    throw Error(Errc::config_error, DeviceTree::kDoorbellsVariable,
                fmt::format("{} is not allowed", wanted), "it must be trap or nap");
}

void check_share(const char* text) {
    if (text == nullptr || std::string_view(text) == "0" || std::string_view(text) == "1") return;
    throw Error(Errc::config_error, DeviceTree::kShareVariable,
                fmt::format("{} is not allowed", text), "it must be 0 or 1");
}

softnic::Options engine_options(const Identity& identity, const DeviceTraits& traits) {
    check_share(std::getenv(DeviceTree::kShareVariable));
    softnic::Options options;
    options.name = identity.name();
    // Programs post and poll by libmlx5; who executes is decided here.
    options.parked = true;
    options.big_endian_results = traits.big_endian_results;
    if (const char* const ring = std::getenv(DeviceTree::kRingVariable))
        options.ring_bytes = static_cast<std::size_t>(environment_size(
            DeviceTree::kRingVariable, ring, DeviceTree::allows_ring, DeviceTree::kAllowedRings));
    if (const char* const faults = std::getenv(DeviceTree::kFaultsVariable))
        options.faults = softnic::parse_faults(faults, DeviceTree::kFaultsVariable);
    return options;
}

int make_file() {
    const int file = memfd_create("verbatim-uverbs", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, DeviceFile::kFileBytes) == 0) return file;
    if (file >= 0) close(file);
    throw Error(Errc::out_of_memory, "software NIC under rdma-core",
                "no memory for its register pages", "free memory or file descriptors");
}

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
    facts.bf_reg_size = DeviceFile::kRegisterBytes;
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

DeviceFile::DeviceFile(const Identity& identity, bool parked)
    : identity_(identity),
      parked_(parked),
      mtu_(port_mtu()),
      file_(make_file()),
      file_identity_(softnic::inspect_file(file_, "register pages").identity),
      device_memory_pool_(file_),
      engine_thread_(may_trap() && !parked),
      core_(std::make_shared<softnic::DeviceCore>(engine_options(identity, firmware_.traits()),
                                                  softnic::claim_slot(), engine_thread_.bell())),
      connector_(*core_) {}

DeviceFile::~DeviceFile() {
    if (!inherited()) leave_xrc();
    // Else the program closes it.
    if (!has_context_) close(async_events_.programs_end());
}

int DeviceFile::execute(std::span<const std::byte> bytes) noexcept try {
    if (inherited()) return EIO;
    const std::lock_guard lock(mutex_);
    return dispatch(bytes);
} catch (const Error& error) {
    log::error("{}", error.what());
    return error.code() == Errc::invalid_argument ? EINVAL : ENOMEM;
} catch (const std::exception& error) {
    log::error("software NIC under rdma-core: {}", error.what());
    return ENOMEM;
}

// Under mutex_.
int DeviceFile::dispatch(std::span<const std::byte> bytes) {
    if (const int error = check_command(bytes); error != 0) return error;
    const auto command = Command::parse(bytes);
    if (!command) return EINVAL;
    if (!has_context_ && command->number() != IB_USER_VERBS_CMD_GET_CONTEXT) return EINVAL;
    const Handler handler = handler_of(*command);
    return handler != nullptr ? (this->*handler)(*command) : EOPNOTSUPP;
}

void DeviceFile::progress(std::uint32_t completion_queue) noexcept {
    engine_thread_.count_poll();
    if (CompletionQueue* const queue = completion_queues_.find(completion_queue))
        queue->engine().progress();
}

// Nothing is posted to an XRC target, which has no engine of its own here.
void DeviceFile::requests_posted(std::uint32_t queue_pair) noexcept {
    engine_thread_.count_post();
    const QueuePair* const pair = queue_pairs_.find(queue_pair);
    if (pair == nullptr || pair->engine == nullptr) return;
    pair->engine->posted();
    // What waits may wait for a time, and nobody will call then.
    if (pair->engine->unexecuted()) [[unlikely]]
        engine_thread_.bell().ring();
}

void DeviceFile::receives_posted(std::uint32_t queue_pair) noexcept {
    engine_thread_.count_post();
    const QueuePair* const pair = queue_pairs_.find(queue_pair);
    if (pair != nullptr && pair->engine != nullptr) pair->engine->progress();
}

// Under mutex_. Once for each context, because a program with many queue pairs has many mappings
// and they take time to read; and for those of thread domains, which come later.
void DeviceFile::find_registers(const mlx5_ib_create_qp& wanted) noexcept try {
    if (!engine_thread_.may_trap()) return;
    const bool new_one = (wanted.flags & MLX5_QP_FLAG_BFREG_INDEX) != 0 &&
                         thread_registers_.insert(wanted.bfreg_index).second;
    if (!std::exchange(registers_changed_, false) && !new_one) return;
    // The system is asked, because programs and libraries that take the place of mmap(), as UCX
    // does, leave nobody else to see it.
    std::vector<Mapped> mapped;
    if (!mapped_for_writing(file_identity_.device, file_identity_.inode, mapped))
        return engine_thread_.forgo_traps("/proc/self/maps cannot be read; is /proc mounted?");
    for (const Mapped& pages : mapped) {
        const bool memory = pages.offset >= DeviceMemoryPool::kFileOffset &&
                            pages.offset < DeviceMemoryPool::kFileOffset + DeviceMemoryPool::kBytes;
        if (!memory) engine_thread_.add_registers(pages.range.first, pages.range.bytes());
    }
} catch (const std::exception& error) {
    engine_thread_.forgo_traps(error.what());
}

void DeviceFile::stamp(std::uint32_t completion_queue) noexcept {
    if (CompletionQueue* const queue = completion_queues_.find(completion_queue))
        queue->engine().ring().stamp();
}

// What can be done is done before: it is polled without an event.
void DeviceFile::arming(std::uint32_t completion_queue) noexcept {
    if (CompletionQueue* const queue = completion_queues_.find(completion_queue))
        queue->engine().progress();
    engine_thread_.expect_doorbell();
}

void DeviceFile::announce(std::uint32_t completion_queue) noexcept {
    CompletionQueue* const queue = completion_queues_.find(completion_queue);
    if (queue != nullptr && queue->channel() != nullptr && queue->announce())
        engine_thread_.expect_event();
}

DeviceFile::Handler DeviceFile::handler_of(const Command& command) noexcept {
    struct Entry {
        unsigned number;
        Handler plain, extended;
    };
    using D = DeviceFile;
    static constexpr Entry kEntries[] = {
        {IB_USER_VERBS_CMD_GET_CONTEXT, &D::get_context, nullptr},
        {IB_USER_VERBS_CMD_QUERY_DEVICE, &D::query_device, &D::query_device_extended},
        {IB_USER_VERBS_CMD_QUERY_PORT, &D::query_port, nullptr},
        {IB_USER_VERBS_CMD_ALLOC_PD, &D::alloc_domain, nullptr},
        {IB_USER_VERBS_CMD_DEALLOC_PD, &D::dealloc_domain, nullptr},
        {IB_USER_VERBS_CMD_CREATE_AH, &D::create_address, nullptr},
        {IB_USER_VERBS_CMD_DESTROY_AH, &D::destroy_address, nullptr},
        {IB_USER_VERBS_CMD_REG_MR, &D::register_memory, nullptr},
        {IB_USER_VERBS_CMD_REREG_MR, &D::reregister_memory, nullptr},
        {IB_USER_VERBS_CMD_DEREG_MR, &D::deregister_memory, nullptr},
        {IB_USER_VERBS_CMD_ALLOC_MW, &D::alloc_window, nullptr},
        {IB_USER_VERBS_CMD_DEALLOC_MW, &D::dealloc_window, nullptr},
        {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &D::create_channel, nullptr},
        {IB_USER_VERBS_CMD_CREATE_CQ, &D::create_completion_queue,
         &D::create_completion_queue_extended},
        {IB_USER_VERBS_CMD_RESIZE_CQ, &D::resize_completion_queue, nullptr},
        {IB_USER_VERBS_EX_CMD_MODIFY_CQ, nullptr, &D::modify_completion_queue},
        {IB_USER_VERBS_CMD_DESTROY_CQ, &D::destroy_completion_queue, nullptr},
        {IB_USER_VERBS_CMD_CREATE_QP, &D::create_queue_pair, &D::create_queue_pair_extended},
        {IB_USER_VERBS_CMD_QUERY_QP, &D::query_queue_pair, nullptr},
        {IB_USER_VERBS_CMD_MODIFY_QP, &D::modify_queue_pair, &D::modify_queue_pair_extended},
        {IB_USER_VERBS_CMD_DESTROY_QP, &D::destroy_queue_pair, nullptr},
        {IB_USER_VERBS_CMD_CREATE_SRQ, &D::create_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_MODIFY_SRQ, &D::modify_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_QUERY_SRQ, &D::query_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_DESTROY_SRQ, &D::destroy_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_CREATE_XSRQ, &D::create_typed_shared_queue, nullptr},
        {IB_USER_VERBS_CMD_OPEN_XRCD, &D::open_xrc_domain, nullptr},
        {IB_USER_VERBS_CMD_CLOSE_XRCD, &D::close_xrc_domain, nullptr},
        {IB_USER_VERBS_CMD_OPEN_QP, &D::open_queue_pair, nullptr},
    };
    for (const Entry& entry : kEntries)
        if (entry.number == command.number())
            return command.is_extended() ? entry.extended : entry.plain;
    return nullptr;
}

int DeviceFile::get_context(const Command& command) {
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
    if (std::exchange(has_context_, true)) return EINVAL;
    registers_changed_ = true;
    ib_uverbs_get_context_resp reply{};
    reply.async_fd = static_cast<std::uint32_t>(async_events_.programs_end());
    reply.num_comp_vectors = 1;
    command.reply(reply, context_facts(wanted.total_num_bfregs));
    return 0;
}

int DeviceFile::query_device(const Command& command) {
    const std::size_t core = sizeof(ib_uverbs_query_device_resp);
    command.reply(device_facts(identity_, firmware_), provider_facts(command.reply_bytes() - core));
    return 0;
}

int DeviceFile::query_device_extended(const Command& command) {
    const auto wanted = command.core<ib_uverbs_ex_query_device>();
    if (wanted.comp_mask != 0 || wanted.reserved != 0) return EINVAL;
    ib_uverbs_ex_query_device_resp reply{};
    reply.base = device_facts(identity_, firmware_);
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

int DeviceFile::query_port(const Command& command) {
    if (command.core<ib_uverbs_query_port>().port_num != 1) return EINVAL;
    ib_uverbs_query_port_resp facts{};
    facts.max_msg_sz = 1u << 30;
    facts.gid_tbl_len = Identity::kGids;
    facts.pkey_tbl_len = 1;
    facts.state = 4;  // active
    facts.max_mtu = mtu_code(4096);
    facts.active_mtu = mtu_code(mtu_);
    facts.max_vl_num = 1;
    facts.active_width = 2;   // 4 lanes
    facts.active_speed = 32;  // EDR
    facts.phys_state = 5;     // link up
    facts.link_layer = 2;     // Ethernet
    command.reply(facts);
    return 0;
}

}  // namespace verbatim::uverbs
