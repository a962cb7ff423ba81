// What stands behind one open of the device file: the register pages, which the caller maps, and
// the objects that its commands make. Control only: queues are the caller's memory, and nothing
// here executes them. What is not supported is refused (EOPNOTSUPP), never silently accepted.
// Source of structures and values: linux' uapi rdma/ib_user_verbs.h and rdma/mlx5-abi.h. Threads:
// any; one lock, because commands are control path.
#pragma once

#include <rdma/ib_user_verbs.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>

#include "command.hpp"

namespace verbatim::uverbs {

class DeviceFile {
  public:
    // Throws Error(out_of_memory) if there is no memory for the register pages.
    DeviceFile();
    ~DeviceFile();
    DeviceFile(const DeviceFile&) = delete;
    DeviceFile& operator=(const DeviceFile&) = delete;

    // The descriptor that open() hands out: register page i is mapped from offset i * 4096. The
    // caller closes it.
    int descriptor() const noexcept { return file_; }

    // Executes one command; 0 or an errno.
    int execute(std::span<const std::byte> bytes);

    static constexpr std::uint32_t kRegisterPages = 8;
    // In each page two doorbell registers of this size, two halves each, from kFirstRegister on.
    static constexpr std::uint32_t kRegisterBytes = 512, kFirstRegister = 0x800;

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
    int destroy_shared_queue(const Command& command);
    int create_address(const Command& command);
    int destroy_address(const Command& command);

    ib_uverbs_create_qp_resp make_queue_pair(const ib_uverbs_ex_create_qp& wanted);
    int change(const ib_uverbs_modify_qp& change);
    std::uint32_t next_register() noexcept;
    std::uint32_t new_object() noexcept { return ++objects_; }
    std::uint32_t new_other() { return *others_.insert(new_object()).first; }
    // 0, or EINVAL if there is no such object.
    int forget(std::uint32_t handle);
    ib_uverbs_create_cq_resp make_completion_queue(std::uint32_t entries, std::uint64_t record);

    std::mutex mutex_;
    int file_;
    int events_ = -1;            // this side of the asynchronous events' socket
    std::uint32_t objects_ = 0;  // handed out so far: handles, numbers, keys
    std::uint32_t registers_ = 0;
    // By handle, as QUERY_QP answers.
    std::map<std::uint32_t, std::unique_ptr<ib_uverbs_query_qp_resp>> queue_pairs_;
    std::set<std::uint32_t> others_;  // handles of everything else
};

}  // namespace verbatim::uverbs
