// Frames to inboxes.
#include "ethernet_link.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <utility>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../../host/own_threads.hpp"
#include "../roce/packets/packet.hpp"
#include "ethernet_library.hpp"

namespace verbatim::softnic {
namespace {

std::uint64_t door_key(std::uint32_t queue_pair, std::uint16_t port) noexcept {
    return std::uint64_t{port} << 32 | queue_pair;
}

// A process that ends drops what its device has not sent, and memif what the peer has not read. The
// last words of queue pairs are among that.
void linger() noexcept {
    constexpr timespec kPause{0, 50'000'000};
    nanosleep(&kPause, nullptr);
}

}  // namespace

// DPDK has a device once in a process: those who name it in the same way share it. It is never
// closed: memif frees twice where both of its sides close at one time.
std::shared_ptr<EthernetLink> EthernetLink::open(const DpdkOptions& options) {
    struct Known {
        EthernetLink* link = nullptr;  // never freed
        std::weak_ptr<EthernetLink> users;
    };
    static auto& links = *new std::map<DpdkOptions, Known>;
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    Known& known = links[options];
    if (auto users = known.users.lock(); users != nullptr && !users->inherited()) return users;
    if (known.link == nullptr || known.link->inherited())
        known.link = new EthernetLink(open_ethernet_device(options), options);
    const auto leave = [](EthernetLink* link) {
        if (!link->inherited()) linger();
    };
    const std::shared_ptr<EthernetLink> users(known.link, leave);
    known.users = users;
    return users;
}

EthernetLink::EthernetLink(std::unique_ptr<EthernetDevice> device, const DpdkOptions& options)
    : device_(std::move(device)), neighbours_(*device_, options) {
    const int refused = start_own_thread(thread_, entry, this, Faults::blocked);
    if (refused != 0)
        throw Error(Errc::device_error, "software NIC, thread of the dpdk port",
                    errno_text(refused), "raise the limit of processes (ulimit -u)");
}

EthernetLink::~EthernetLink() {
    if (inherited()) {
        static_cast<void>(device_.release());
        return;
    }
    stop_.store(true);
    pthread_join(thread_, nullptr);
}

unsigned EthernetLink::mtu_log2() const noexcept { return path_mtu_log2(device_->mtu()); }

// Two devices of one process may have queue pairs of one number.
StreamPlace EthernetLink::add(std::uint32_t queue_pair, LinkInbox& inbox) {
    StreamPlace place{address(), kRocePort};
    const InsideGate inside(gate_);
    while (!doors_.emplace(door_key(queue_pair, place.port), &inbox).second) ++place.port;
    return place;
}

void EthernetLink::remove(std::uint32_t queue_pair, const StreamPlace& place,
                          LinkInbox& inbox) noexcept {
    {
        const InsideGate inside(gate_);
        doors_.erase(door_key(queue_pair, place.port));
    }
    for (LinkInbox::Item item; inbox.pop(item);) device_->release({&item.owner, 1});
}

std::shared_ptr<const Neighbour> EthernetLink::neighbour(const IpAddress& address) {
    const InsideGate inside(gate_);
    return neighbours_.find(address);
}

void EthernetLink::listen(LinkListener& listener) {
    const InsideGate inside(gate_);
    listeners_.push_back(&listener);
}

void EthernetLink::stop_listening(LinkListener& listener) noexcept {
    const InsideGate inside(gate_);
    std::erase(listeners_, &listener);
}

// A forked child leaves the device to its parent.
bool EthernetLink::poll(const void* own) noexcept {
    if (inherited() || !gate_.try_enter()) return false;
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    const bool moved = take(own);
    gate_.leave_for_good();
    return moved;
}

// One fence for the burst: a flow that was armed meanwhile sees its datagrams, or is seen.
bool EthernetLink::take(const void* own) noexcept {
    std::array<ReceivedFrame, kFrames> frames;
    std::array<LinkInbox*, kFrames> inboxes;
    const std::size_t count = device_->receive(frames);
    if (count == 0) return false;
    for (std::size_t i = 0; i < count; ++i) inboxes[i] = put(frames[i], own);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (std::size_t i = 0; i < count; ++i) {
        if (inboxes[i] == nullptr)
            device_->release({&frames[i].owner, 1});
        else if (inboxes[i]->watched())
            inboxes[i]->wake();
    }
    return true;
}

bool EthernetLink::is_heard(const FrameDatagram& datagram, const void* own) noexcept {
    return std::any_of(listeners_.begin(), listeners_.end(),
                       [&](LinkListener* listener) { return listener->take(datagram, own); });
}

// Null: the frame is not kept.
LinkInbox* EthernetLink::put(const ReceivedFrame& frame, const void* own) noexcept {
    LinkInbox::Item item{{}, frame.owner};
    FrameDatagram& datagram = item.datagram;
    if (parse_datagram({frame.bytes, frame.count}, address(), datagram)) {
        const auto found = doors_.find(door_key(datagram.queue_pair, datagram.port));
        if (found != doors_.end() && found->second->push(item)) return found->second;
        if (found == doors_.end() && datagram.port == kRocePort && is_heard(datagram, own))
            return nullptr;
    } else if (NeighbourPacket packet; parse_neighbour({frame.bytes, frame.count}, packet)) {
        neighbours_.take(packet);
        return nullptr;
    }
    strangers_.store(strangers_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return nullptr;
}

void* EthernetLink::entry(void* self) {
    const OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-dpdk");
    static_cast<EthernetLink*>(self)->watch();
    return nullptr;
}

// Polls where nobody did since the last look. Devices that are idle are looked at less often.
void EthernetLink::watch() noexcept {
    constexpr long kShortestPause = 50'000, kLongestPause = 1'000'000;  // ns
    long pause = kShortestPause;
    while (!stop_.load(std::memory_order_relaxed)) {
        const std::uint64_t before = polls_.load(std::memory_order_relaxed);
        const timespec time{0, pause};
        {
            const AtRest rest;
            nanosleep(&time, nullptr);
        }
        const bool others = polls_.load(std::memory_order_relaxed) != before;
        const bool moved = !others && poll();
        pause = moved ? kShortestPause : std::min(2 * pause, kLongestPause);
    }
}

}  // namespace verbatim::softnic
