// What a prepared operation depends on: its queue and the memory regions it names, with a cheap
// answer to "is all of it still there?". Threads: those of the queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/mlx5/validity.hpp>

namespace verbatim::mlx5 {

// The regions behind a request's elements, in their order. None: the caller vouches for the keys.
using NamedRegions = std::span<const MemoryRegion* const>;

// The queue a prepared operation belongs to, and the cheap answer to "is all it names still
// there?".
class PreparedBinding {
  public:
    // Throws Error(invalid_argument): regions of a queue that does not know its device's epoch.
    PreparedBinding(SendQueue& queue, NamedRegions regions);

    SendQueue& queue() const noexcept { return validity_.queue(); }

    // False: maybe a region is not there any more.
    [[gnu::always_inline]] bool unchanged() const noexcept { return validity_.unchanged(); }
    // Whether the regions are still there.
    [[gnu::always_inline]] bool check() noexcept { return validity_.unchanged() || recheck(); }
    bool valid() const noexcept { return !validity_.revoked() && all_alive(); }
    // Why the queue refused a post: a revoked operation's queue is always full.
    Errc refusal(Errc of_queue) const noexcept {
        return validity_.revoked() ? Errc::invalid_prepared : of_queue;
    }

    // Watches another region for element `index` from now on. Errors: invalid_argument (none was
    // named).
    Errc replace(std::size_t index, const MemoryRegion& region) noexcept;

  private:
    using Token = std::shared_ptr<const std::atomic<bool>>;

    bool recheck() noexcept;
    bool all_alive() const noexcept;

    Validity validity_;
    std::vector<Token> tokens_;
};

}  // namespace verbatim::mlx5
