// An inbox keeps packets of one queue pair that came to a socket of several. One producer, the
// thread inside the socket's gate; one consumer, the thread inside the flow's gate.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include <verbatim/driver/error.hpp>

#include "../../../host/descriptor.hpp"
#include "../packets/packet.hpp"

namespace verbatim::softnic {

class PacketInbox {
  public:
    static constexpr std::size_t kPackets = 64;  // as many as a window of ours has

    // `source`: the peer's address, from which packets are taken. Throws Error(device_error),
    // std::bad_alloc.
    explicit PacketInbox(const std::array<std::uint8_t, 16>& source)
        : source_(source), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!event_)
            throw Error(Errc::device_error, "packets of a queue pair", "no descriptor is left",
                        "raise the limit of open files (ulimit -n)");
    }

    // Any thread. Readable while a packet waits that nobody looks for.
    int file() const noexcept { return event_.get(); }
    const std::array<std::uint8_t, 16>& source() const noexcept { return source_; }

    // The producer. False: it is full, or the packet is too long; it is lost as on any wire.
    bool put(std::span<const std::byte> packet, bool marked = false) noexcept {
        const std::uint64_t end = end_.load(std::memory_order_relaxed);
        if (end - begin_.load(std::memory_order_acquire) == kPackets ||
            packet.size() > kMaxPacketBytes)
            return false;
        Slot& slot = slots_[end % kPackets];
        slot.bytes = packet.size();
        slot.marked = marked;
        std::memcpy(slot.packet.data(), packet.data(), packet.size());
        end_.store(end + 1, std::memory_order_release);
        return true;
    }
    // The consumer is to look. A system call, once until it has.
    void signal() noexcept {
        if (signalled_.exchange(true)) return;
        const std::uint64_t one = 1;
        if (write(event_.get(), &one, sizeof one) < 0) return;
    }
    // The consumer, before it looks.
    void quiet() noexcept {
        if (!signalled_.load(std::memory_order_relaxed)) return;
        std::uint64_t count = 0;
        if (read(event_.get(), &count, sizeof count) > 0) signalled_.store(false);
    }
    bool empty() const noexcept {
        return begin_.load(std::memory_order_relaxed) == end_.load(std::memory_order_acquire);
    }
    // Not empty. The next packet came with a mark of congestion.
    bool marked() const noexcept {
        return slots_[begin_.load(std::memory_order_relaxed) % kPackets].marked;
    }
    // Not empty. Returns the packet's bytes, at most into.size().
    std::size_t take(std::span<std::byte> into) noexcept {
        const std::uint64_t begin = begin_.load(std::memory_order_relaxed);
        const Slot& slot = slots_[begin % kPackets];
        const std::size_t bytes = std::min(slot.bytes, into.size());
        std::memcpy(into.data(), slot.packet.data(), bytes);
        begin_.store(begin + 1, std::memory_order_release);
        return bytes;
    }

  private:
    struct Slot {
        std::size_t bytes = 0;
        bool marked = false;
        std::array<std::byte, kMaxPacketBytes> packet;
    };

    const std::array<std::uint8_t, 16> source_;
    const Descriptor event_;
    std::unique_ptr<Slot[]> slots_ = std::make_unique_for_overwrite<Slot[]>(kPackets);
    std::atomic<std::uint64_t> begin_{0}, end_{0};
    std::atomic<bool> signalled_{false};
};

}  // namespace verbatim::softnic
