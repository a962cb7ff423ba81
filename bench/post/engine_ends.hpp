// Two queue pairs of the software NIC in this process, of which one is posted to: whatever is rung
// for, the posting thread executes before the post returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <verbatim/driver/device.hpp>
#include <verbatim/mlx5/completion_queue.hpp>
#include <verbatim/mlx5/send_ring.hpp>

namespace verbatim::bench {

class EngineEnds {
  public:
    static constexpr std::uint32_t kBlocks = 256;
    static constexpr std::size_t kBytes = 256 << 10;

    EngineEnds();

    // Of the end that posts.
    const mlx5::QueuePairView& view() const { return near_.queue_pair->view(); }
    const volatile std::uint64_t* epoch() const { return near_.device->invalidation_epoch(); }
    // Registered memory: here, and what the requests name.
    std::uint64_t local_address(std::uint64_t i) const { return near_.address() + i % 1024 * 64; }
    std::uint64_t remote_address(std::uint64_t i) const { return far_.address() + i % 16384 * 8; }
    std::uint32_t local_key() const { return near_.region->local_key(); }
    std::uint32_t remote_key() const { return far_.region->remote_key(); }

    // Takes the completion that the last request of a batch has; aborts if there is none.
    void retire(mlx5::SendRing& queue);

  private:
    struct End {
        End();
        ~End();
        End(const End&) = delete;
        End& operator=(const End&) = delete;
        std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory); }

        std::byte* memory = nullptr;
        std::unique_ptr<Device> device;
        std::unique_ptr<MemoryRegion> region;
        std::unique_ptr<CompletionQueueHandle> completion_queue;
        std::unique_ptr<QueuePairHandle> queue_pair;
    };
    End near_, far_;
    mlx5::CompletionQueue completions_;
    bool attached_ = false;
};

}  // namespace verbatim::bench
