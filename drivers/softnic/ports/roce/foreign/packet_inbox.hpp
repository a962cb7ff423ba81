// An inbox keeps packets of one queue pair that came to a socket of several. One producer, the
// thread inside the socket's gate; one consumer, the thread inside the gate of the flow, or of the
// responder of datagrams.
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
#include "../back_end/congestion_marks.hpp"
#include "../packets/packet.hpp"

namespace verbatim::softnic {

// Where a packet came from, by its IP header.
struct PacketOrigin {
    std::array<std::uint8_t, 16> address{};
    std::uint16_t port = 0;            // of UDP
    std::uint16_t identification = 0;  // of IPv4
    Traffic traffic;
};

// Calls the consumer. Inside the producer's gate: must not wait for it.
struct InboxNotice {
    void (*call)(const void* context) noexcept = nullptr;
    const void* context = nullptr;
};

class PacketInbox {
  public:
    static constexpr std::size_t kPackets = 64;  // as many as a window of ours has

    // `source`: the peer's address, from which packets are taken; a descriptor tells of them.
    // Throws Error(device_error), std::bad_alloc.
    explicit PacketInbox(const std::array<std::uint8_t, 16>& source)
        : source_(source), event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
        if (!event_)
            throw Error(Errc::device_error, "packets of a queue pair", "no descriptor is left",
                        "raise the limit of open files (ulimit -n)");
    }
    // Of packets from everywhere. Throws std::bad_alloc.
    explicit PacketInbox(const InboxNotice& notice) : notice_(notice) {}

    // Any thread. Readable while a packet waits that nobody looks for.
    int file() const noexcept { return event_.get(); }
    bool takes_from(const std::array<std::uint8_t, 16>& source) const noexcept {
        return !event_ || source == source_;
    }

    // The producer. False: it is full, or the packet is too long; it is lost as on any wire.
    bool put(std::span<const std::byte> packet, const PacketOrigin& origin = {}) noexcept {
        const std::uint64_t end = end_.load(std::memory_order_relaxed);
        if (end - begin_.load(std::memory_order_acquire) == kPackets ||
            packet.size() > kMaxPacketBytes)
            return false;
        Slot& slot = slots_[end % kPackets];
        slot.bytes = packet.size();
        slot.origin = origin;
        std::memcpy(slot.packet.data(), packet.data(), packet.size());
        end_.store(end + 1, std::memory_order_release);
        return true;
    }
    // The consumer is to look. A system call or a notice, once until it has.
    void signal() noexcept {
        if (signalled_.exchange(true)) return;
        if (!event_) return notice_.call(notice_.context);
        const std::uint64_t one = 1;
        if (write(event_.get(), &one, sizeof one) < 0) return;
    }
    // The consumer, before it looks.
    void quiet() noexcept {
        if (!signalled_.load(std::memory_order_relaxed)) return;
        std::uint64_t count = 0;
        if (!event_ || read(event_.get(), &count, sizeof count) > 0) signalled_.store(false);
    }
    // Any thread.
    bool empty() const noexcept {
        return begin_.load(std::memory_order_relaxed) == end_.load(std::memory_order_acquire);
    }
    // Not empty: the next packet, until pop(), and where it came from.
    std::span<const std::byte> front() const noexcept {
        return std::span(next().packet).first(next().bytes);
    }
    const PacketOrigin& origin() const noexcept { return next().origin; }
    void pop() noexcept {
        begin_.store(begin_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    // Not empty. Returns the packet's bytes, at most into.size().
    std::size_t take(std::span<std::byte> into) noexcept {
        const auto packet = front();
        const std::size_t bytes = std::min(packet.size(), into.size());
        std::memcpy(into.data(), packet.data(), bytes);
        pop();
        return bytes;
    }

  private:
    struct Slot {
        std::size_t bytes;
        PacketOrigin origin;
        std::array<std::byte, kMaxPacketBytes> packet;
    };

    const Slot& next() const noexcept {
        return slots_[begin_.load(std::memory_order_relaxed) % kPackets];
    }

    const std::array<std::uint8_t, 16> source_{};
    const Descriptor event_;  // none: of a notice
    const InboxNotice notice_;
    std::unique_ptr<Slot[]> slots_ = std::make_unique_for_overwrite<Slot[]>(kPackets);
    std::atomic<std::uint64_t> begin_{0}, end_{0};
    std::atomic<bool> signalled_{false};
};

}  // namespace verbatim::softnic
