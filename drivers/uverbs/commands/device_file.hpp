// What stands behind one open of the device file: the register pages, which the caller maps, and
// the objects that its commands make. Queues are the caller's memory; the software NIC's engine
// executes them, unless the file is parked. What is not supported is refused (EOPNOTSUPP), never
// silently accepted. Source of structures and values: linux' uapi rdma/ib_user_verbs.h and
// rdma/mlx5-abi.h. Threads: any; one lock, because commands are control path; progress takes none.
#pragma once

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "../../softnic/device.hpp"
#include "../objects/connector.hpp"
#include "../objects/objects.hpp"
#include "../objects/xrc_objects.hpp"
#include "../progress/engine_thread.hpp"
#include "../tree/identity.hpp"
#include "command.hpp"
#include "device_memory.hpp"
#include "firmware.hpp"
#include "handle_table.hpp"
#include "method.hpp"

namespace verbatim::uverbs {

class DeviceFile {
  public:
    // Parked: queues are made and nothing executes them, for tests that look at raw queues. Throws
    // Error(out_of_memory | device_error).
    DeviceFile(const Identity& identity, bool parked);
    ~DeviceFile();
    DeviceFile(const DeviceFile&) = delete;
    DeviceFile& operator=(const DeviceFile&) = delete;

    // The descriptor that open() hands out: register page i is mapped from offset i * 4096. The
    // caller closes it.
    int descriptor() const noexcept { return file_; }

    // Executes one command; 0 or an errno.
    int execute(std::span<const std::byte> bytes) noexcept;
    // Executes what an ioctl() asks for; 0 or an errno.
    int invoke(ib_uverbs_ioctl_hdr& header) noexcept;

    bool parked() const noexcept { return parked_; }
    const Identity& identity() const noexcept { return identity_; }
    // True in a forked child: the parent goes on with it, the child opens its own.
    bool inherited() const noexcept { return core_->inherited(); }
    // Data path, by the handles of the program's objects. Does what can be done now: after a poll
    // found nothing, after a post, around the arming of a queue.
    void progress(std::uint32_t completion_queue) noexcept;
    // After a post; before one that rings a doorbell.
    void requests_posted(std::uint32_t queue_pair) noexcept;
    void receives_posted(std::uint32_t queue_pair) noexcept;
    void posting() noexcept { engine_thread_.expect_doorbell(); }
    void arming(std::uint32_t completion_queue) noexcept;
    // After its arming, and after a poll that took something: raises the event that is due.
    void announce(std::uint32_t completion_queue) noexcept;
    // The program has asked where its queues and registers are, to write to them by itself.
    void distrust() noexcept { engine_thread_.distrust(); }
    CompletionQueue* completion_queue(std::uint32_t handle) const noexcept {
        return completion_queues_.find(handle);
    }
    // Completions of this queue are to say when they were written.
    void stamp(std::uint32_t completion_queue) noexcept;

    static constexpr std::uint32_t kRegisterPages = 8;
    // The descriptor's file: how long it is, and what the system calls it. libmlx5 maps registers
    // for thread domains from offsets of 6 MiB on; pages that nobody touches cost nothing.
    static constexpr std::int64_t kFileBytes = 64 << 20;
    static constexpr const char* kLinkName = "/memfd:verbatim-uverbs";
    // In each page two doorbell registers of this size, two halves each, from kFirstRegister on.
    static constexpr std::uint32_t kRegisterBytes = 512, kFirstRegister = 0x800;

    // Of events; microseconds.
    static constexpr std::uint16_t kMaxModerationCount = 0xffff, kMaxModerationPeriod = 0xfff;

  private:
    using Handler = int (DeviceFile::*)(const Command&);
    static Handler handler_of(const Command& command) noexcept;

    int get_context(const Command& command);
    int query_device(const Command& command);
    int query_device_extended(const Command& command);
    int query_port(const Command& command);
    int alloc_domain(const Command& command);
    int dealloc_domain(const Command& command);
    int register_memory(const Command& command);
    int deregister_memory(const Command& command);
    int alloc_window(const Command& command);
    int dealloc_window(const Command& command);
    int create_channel(const Command& command);
    int create_completion_queue(const Command& command);
    int create_completion_queue_extended(const Command& command);
    int destroy_completion_queue(const Command& command);
    int create_queue_pair(const Command& command);
    int create_queue_pair_extended(const Command& command);
    int modify_queue_pair(const Command& command);
    int modify_queue_pair_extended(const Command& command);
    int query_queue_pair(const Command& command);
    int destroy_queue_pair(const Command& command);
    int create_shared_queue(const Command& command);
    int modify_shared_queue(const Command& command);
    int query_shared_queue(const Command& command);
    int resize_completion_queue(const Command& command);
    int modify_completion_queue(const Command& command);
    int reregister_memory(const Command& command);
    int destroy_shared_queue(const Command& command);
    int create_typed_shared_queue(const Command& command);
    int open_xrc_domain(const Command& command);
    int close_xrc_domain(const Command& command);
    int open_queue_pair(const Command& command);
    int create_address(const Command& command);
    int destroy_address(const Command& command);

    int query_gid_entry(Method& method);
    int query_gid_table(Method& method);
    int alloc_device_memory(Method& method);
    int free_device_memory(Method& method);
    int register_device_memory(Method& method);
    int advise_memory(Method& method);
    int query_context(Method& method);

    int dispatch(std::span<const std::byte> bytes);
    int dispatch(Method& method);
    static int check_access(std::uint32_t access);
    static int check_memory(const Wanted& wanted);
    int advise(const Domain& domain, std::uint64_t advice, bool flush, const ib_uverbs_sge& range);
    static softnic::Registration registration_of(const Wanted& wanted, const Domain& domain,
                                                 std::uint64_t file);
    std::uint32_t make_key(const Wanted& wanted, const Domain& domain, std::uint64_t file = 0);
    int change_in_place(Key& region, const Wanted& wanted, const Domain& domain);
    int replace_region(Key& region, const Wanted& wanted, Domain& domain);
    Key make_region(const Wanted& wanted, Domain& domain);
    bool revoke_region(Key& region) noexcept;
    void forget_region(Key& region) noexcept;
    std::uint32_t add_key(const Key& key);
    void remove_key(std::uint32_t handle);
    int make_completion_queue(const ib_uverbs_ex_create_cq& wanted,
                              const mlx5_ib_create_cq& provider, ib_uverbs_create_cq_resp& reply);
    int make_queue_pair(const ib_uverbs_ex_create_qp& wanted, const mlx5_ib_create_qp& provider,
                        ib_uverbs_create_qp_resp& reply);
    int find_parts(const ib_uverbs_ex_create_qp& wanted, QueuePair& pair);
    int make_target(const ib_uverbs_ex_create_qp& wanted, ib_uverbs_create_qp_resp& reply);
    int make_shared_queue(const ib_uverbs_create_xsrq& wanted, const mlx5_ib_create_srq& provider,
                          ib_uverbs_create_srq_resp& reply);
    std::uint32_t add_handle(const std::shared_ptr<XrcTarget>& target, OpenXrcDomain& open,
                             std::uint64_t user_handle);
    void leave_xrc() noexcept;
    int change(const ib_uverbs_modify_qp& wanted);
    int change(QueuePair& pair, const ib_uverbs_modify_qp& wanted);
    void enter(QueuePair& pair, std::uint8_t state);
    void find_registers(const mlx5_ib_create_qp& wanted) noexcept;
    std::uint32_t next_register() noexcept;

    const Identity identity_;
    const Firmware firmware_;
    const bool parked_;
    const std::uint32_t mtu_;
    std::mutex mutex_;
    int file_;
    const softnic::FileIdentity file_identity_;
    DeviceMemoryPool device_memory_pool_;
    AsyncEvents async_events_;
    bool has_context_ = false;
    bool registers_changed_ = false;  // libmlx5 has mapped others since they were looked for
    std::set<std::uint32_t> thread_registers_;  // of thread domains, that queue pairs have used
    std::uint32_t registers_ = 0;
    // Destroyed from the last to the first: the threads stop before what they touch goes, and each
    // object goes before those it uses.
    std::map<int, std::shared_ptr<EventChannel>> channels_;  // by the program's descriptor
    HandleTable<Domain> domains_;
    HandleTable<DeviceMemory> device_memories_;
    HandleTable<Key> keys_;
    HandleTable<Address> addresses_;
    HandleTable<OpenXrcDomain> xrc_domains_;
    HandleTable<CompletionQueue> completion_queues_;
    HandleTable<SharedQueue> shared_queues_;
    EngineThread engine_thread_;
    std::shared_ptr<softnic::DeviceCore> core_;
    HandleTable<QueuePair> queue_pairs_;
    std::vector<std::weak_ptr<XrcTarget>> own_targets_;  // made here
    Connector connector_;
};

}  // namespace verbatim::uverbs
