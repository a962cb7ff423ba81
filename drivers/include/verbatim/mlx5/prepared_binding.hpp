// A prepared binding tests cheaply whether a prepared operation's queue and the memory regions that
// it names exist. Threads: those of the queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/mlx5/send_queue.hpp>
#include <verbatim/mlx5/validity.hpp>

namespace verbatim::mlx5 {

// The regions behind a request's elements, in their order. None: the caller is responsible for the
// keys.
using NamedRegions = std::span<const MemoryRegion* const>;

// The regions that an operation names, watched by their device's epoch, which moves when any region
// of it is released.
class RegionWatch {
  public:
    // `epoch`: Device::invalidation_epoch(). Throws Error(invalid_argument): regions without one.
    RegionWatch(NamedRegions regions, const volatile std::uint64_t* epoch,
                std::uint32_t queue_pair);

    // True: nothing was released since the last test.
    [[gnu::always_inline]] bool unchanged() const noexcept {
        return __atomic_load_n(epoch_, __ATOMIC_RELAXED) == seen_;
    }
    // True while all of them exist. Tests them only after a release.
    [[gnu::always_inline]] bool check() noexcept { return unchanged() || look(); }
    bool all_alive() const noexcept;
    // Watches another region in place of this one. Errors: invalid_argument (none was named).
    Errc replace(std::size_t index, const MemoryRegion& region) noexcept;
    void forget() noexcept { tokens_.clear(); }

  private:
    using Token = std::shared_ptr<const std::atomic<bool>>;
    static constexpr std::uint64_t kNoEpoch = 0;

    bool look() noexcept;

    const volatile std::uint64_t* epoch_ = &kNoEpoch;
    std::uint64_t seen_ = 0;
    std::vector<Token> tokens_;
};

// An operation's queue and regions.
class PreparedBinding {
  public:
    // `blocks`: of each request. Throws as RegionWatch.
    PreparedBinding(SendQueue& queue, NamedRegions regions, std::uint32_t blocks);

    // A revoked operation gets a queue that is always full.
    SendQueue& queue() const noexcept { return validity_.queue(); }
    RegionWatch& regions() noexcept { return regions_; }

    bool valid() const noexcept { return !validity_.revoked() && regions_.all_alive(); }
    // True while the regions exist; else it is revoked.
    [[gnu::always_inline]] bool check() noexcept { return regions_.unchanged() || look(); }
    // The reason why the queue refused a post.
    Errc refusal(Errc of_queue) const noexcept {
        return validity_.revoked() ? Errc::invalid_prepared : of_queue;
    }
    void release() noexcept {
        validity_.revoke();
        regions_.forget();
    }

  private:
    bool look() noexcept;

    Validity validity_;
    RegionWatch regions_;
};

}  // namespace verbatim::mlx5
