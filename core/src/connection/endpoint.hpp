// This side's half of a connection: queue pair, ring memory that the peer writes, and, once the
// peer is known, the data path over them. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include <verbatim/core/config.hpp>
#include <verbatim/core/connection.hpp>
#include <verbatim/driver/device.hpp>

#include "../bootstrap/hello.hpp"
#include "../ring/message_ring.hpp"
#include "../ring/send_path.hpp"

namespace verbatim {

// Registered memory of its own: an arena that is one allocation and one region.
class RegisteredBlock {
  public:
    struct Options {
        std::string name;
        std::size_t bytes;  // whole pages
        Access access;
        bool lock_memory;
        int numa_node;
    };
    // Throws what the arena and the device throw.
    RegisteredBlock(Device& device, const Options& options);
    std::byte* address() const noexcept { return region_->address(); }
    const MemoryRegion& region() const noexcept { return *region_; }

  private:
    Arena arena_;
    std::unique_ptr<MemoryRegion> region_;
};

class Endpoint {
  public:
    // `local_address`: as QueuePairOptions has it. Throws what the device throws.
    Endpoint(Device& device, const Config& config,
             const std::array<std::uint8_t, 16>& local_address);

    // What the peer needs to know of this side.
    Hello hello() const;
    // Connects the queue pair and builds the data path. Throws what QueuePairHandle::connect
    // throws.
    void connect(const Hello& peer, Deadline deadline);

    // Once connected:
    SendPath& path() noexcept { return *path_; }
    MessageRing& ring() noexcept { return *ring_; }
    QueuePairHandle& queue_pair() noexcept { return *queue_pair_; }

  private:
    // Throws Error(unsupported).
    void check_order() const;

    Device& device_;
    const Config& config_;
    std::unique_ptr<CompletionQueueHandle> completions_;
    std::unique_ptr<QueuePairHandle> queue_pair_;
    RegisteredBlock incoming_;  // one page with the credit word, then the ring; the peer writes it
    std::optional<RegisteredBlock> mirror_;  // of the peer's ring; only the local device reads it
    std::uint64_t tag_key_;
    std::optional<SendPath> path_;
    std::optional<MessageRing> ring_;
};

}  // namespace verbatim
