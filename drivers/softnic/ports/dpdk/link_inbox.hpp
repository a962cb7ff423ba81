// The inbox of one flow: datagrams for it that some thread found when it polled the Ethernet link,
// and a descriptor that wakes the engine thread. One thread at a time puts in, the one inside the
// link's gate; one takes out, the one inside the flow's.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "../../host/descriptor.hpp"
#include "ethernet_frames.hpp"

namespace verbatim::softnic {

class LinkInbox {
  public:
    // A datagram, until its owner is given back to the device.
    struct Item {
        FrameDatagram datagram;
        void* owner = nullptr;
    };
    // Beyond a window of packets each way. A flow that nobody drives holds no more of the device's
    // buffers.
    static constexpr std::size_t kItems = 128;

    LinkInbox() noexcept : signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

    bool usable() const noexcept { return static_cast<bool>(signal_); }
    // False: it is full.
    bool push(const Item& item) noexcept {
        const std::size_t end = end_.load(std::memory_order_relaxed);
        if (end - begin_.load(std::memory_order_acquire) == kItems) return false;
        items_[end % kItems] = item;
        end_.store(end + 1, std::memory_order_release);
        return true;
    }
    bool empty() const noexcept {
        return begin_.load(std::memory_order_relaxed) == end_.load(std::memory_order_acquire);
    }
    bool pop(Item& item) noexcept {
        if (empty()) return false;
        const std::size_t begin = begin_.load(std::memory_order_relaxed);
        item = items_[begin % kItems];
        begin_.store(begin + 1, std::memory_order_release);
        return true;
    }
    // Readable from now on where something is in the inbox, or comes. It stays readable until the
    // next call, though another thread may have emptied the inbox. Any thread.
    int arm() noexcept {
        std::uint64_t unused;
        if (read(signal_.get(), &unused, sizeof unused) < 0) unused = 0;
        watched_.store(true);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!empty()) wake();
        return signal_.get();
    }
    bool watched() const noexcept { return watched_.load(std::memory_order_relaxed); }
    // The first one after arm() makes the descriptor readable. Of the thread that puts in, behind a
    // fence.
    void wake() noexcept {
        const std::uint64_t one = 1;
        if (!watched_.exchange(false) || write(signal_.get(), &one, sizeof one) > 0) return;
    }

  private:
    Descriptor signal_;
    std::atomic<bool> watched_{false};
    alignas(64) std::atomic<std::size_t> begin_{0};
    alignas(64) std::atomic<std::size_t> end_{0};
    std::array<Item, kItems> items_;
};

}  // namespace verbatim::softnic
