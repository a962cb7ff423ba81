// One open of the device file: it executes commands and methods on the objects behind it, and lets
// the data path make progress. Queues are the caller's memory; the software NIC's engine executes
// them, unless the file is parked. What is not supported is refused (EOPNOTSUPP), never silently
// accepted. Source of structures and values: linux' uapi rdma/ib_user_verbs.h and rdma/mlx5-abi.h.
// Threads: any; one lock, because commands are control path; progress takes none.
#pragma once

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "../commands/device_objects.hpp"
#include "../tree/identity.hpp"

namespace verbatim::uverbs {

class DeviceFile {
  public:
    // Parked: queues are made and nothing executes them, for tests that look at raw queues. Throws
    // Error(out_of_memory | device_error).
    DeviceFile(const Identity& identity, bool parked) : objects_(identity, parked) {}
    DeviceFile(const DeviceFile&) = delete;
    DeviceFile& operator=(const DeviceFile&) = delete;

    // The descriptor that open() hands out (RegisterPages::file). The caller closes it.
    int descriptor() const noexcept { return objects_.registers.file(); }

    // Executes one command; 0 or an errno.
    int execute(std::span<const std::byte> bytes) noexcept;
    // Executes what an ioctl() asks for; 0 or an errno.
    int invoke(ib_uverbs_ioctl_hdr& header) noexcept;

    bool parked() const noexcept { return objects_.facts.parked; }
    const Identity& identity() const noexcept { return objects_.facts.identity; }
    // True in a forked child: the parent goes on with it, the child opens its own.
    bool inherited() const noexcept { return objects_.core->inherited(); }
    // Data path, by the handles of the program's objects. Does what can be done now: after a poll
    // found nothing, after a post, around the arming of a queue.
    void progress(std::uint32_t completion_queue) noexcept;
    // After a post; before one that rings a doorbell.
    void requests_posted(std::uint32_t queue_pair) noexcept;
    void receives_posted(std::uint32_t queue_pair) noexcept;
    void posting() noexcept { objects_.engine_thread.expect_doorbell(); }
    void arming(std::uint32_t completion_queue) noexcept;
    // After its arming, and after a poll that took something: raises the event that is due.
    void announce(std::uint32_t completion_queue) noexcept;
    // The program has asked where its queues and registers are, to write to them by itself.
    void distrust() noexcept { objects_.engine_thread.distrust(); }
    CompletionQueue* completion_queue(std::uint32_t handle) const noexcept {
        return objects_.completion_queues.find(handle);
    }
    // Completions of this queue are to say when they were written.
    void stamp(std::uint32_t completion_queue) noexcept;

  private:
    int dispatch(std::span<const std::byte> bytes);

    std::mutex mutex_;
    DeviceObjects objects_;
};

}  // namespace verbatim::uverbs
