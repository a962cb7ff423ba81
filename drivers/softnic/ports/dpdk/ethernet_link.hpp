// An Ethernet link is one DPDK device, shared by all flows of this process that go through it. Any
// thread that polls takes frames from the device, and puts each into its flow's inbox. Where nobody
// polls, a thread of the link does. Threads: any.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <verbatim/softnic/softnic.hpp>

#include "../../../softqueue/gate.hpp"
#include "link_inbox.hpp"
#include "neighbours.hpp"

namespace verbatim::softnic {

// Takes datagrams to the RoCE port that no flow's inbox has. Inside the link's gate.
class LinkListener {
  public:
    // `own`: of the poll() that found it. The bytes are the device's, and last until this returns.
    // False: it has no such queue pair.
    virtual bool take(const FrameDatagram& datagram, const void* own) noexcept = 0;

  protected:
    ~LinkListener() = default;
};

class EthernetLink {
  public:
    // The link of this configuration: one for the whole process, which stays. Throws
    // Error(device_error | invalid_argument).
    static std::shared_ptr<EthernetLink> open(const DpdkOptions& options);

    // Throws Error.
    EthernetLink(std::unique_ptr<EthernetDevice> device, const DpdkOptions& options);
    ~EthernetLink();
    EthernetLink(const EthernetLink&) = delete;
    EthernetLink& operator=(const EthernetLink&) = delete;

    EthernetDevice& device() noexcept { return *device_; }
    const IpAddress& address() const noexcept { return neighbours_.own(); }
    // Of packets in this link's frames, log2.
    unsigned mtu_log2() const noexcept;
    // True in a forked child: the device belongs to the parent.
    bool inherited() const noexcept { return generation_ != fork_generation(); }

    // Control path: from now on datagrams for the queue pair go into the inbox. Returns its place.
    StreamPlace add(std::uint32_t queue_pair, LinkInbox& inbox);
    // Afterwards nothing is put into it any more; what is there is given back.
    void remove(std::uint32_t queue_pair, const StreamPlace& place, LinkInbox& inbox) noexcept;
    // Control path. One for each device of the process that the link serves.
    void listen(LinkListener& listener);
    void stop_listening(LinkListener& listener) noexcept;
    // Inside it, datagrams come to inboxes and to listeners.
    Gate& gate() noexcept { return gate_; }
    // Control path. Throws std::bad_alloc.
    std::shared_ptr<const Neighbour> neighbour(const IpAddress& address);
    // Any thread.
    void ask(const Neighbour& neighbour) noexcept { neighbours_.ask(neighbour); }

    // Takes what has come, unless another thread does; listeners hear for whom. False: nothing
    // came, or this is a forked child.
    bool poll(const void* own = nullptr) noexcept;
    std::uint64_t strangers() const noexcept { return strangers_.load(std::memory_order_relaxed); }

  private:
    using Doors = std::unordered_map<std::uint64_t, LinkInbox*>;
    static constexpr std::size_t kFrames = 32;

    static void* entry(void* self);
    void watch() noexcept;
    bool take(const void* own) noexcept;
    bool is_heard(const FrameDatagram& datagram, const void* own) noexcept;
    LinkInbox* put(const ReceivedFrame& frame, const void* own) noexcept;

    const std::uint64_t generation_ = fork_generation();
    std::unique_ptr<EthernetDevice> device_;
    std::atomic<bool> stop_{false};
    std::atomic<std::uint64_t> polls_{0}, strangers_{0};
    pthread_t thread_{};

    Gate gate_;  // around receive(), and what follows
    Doors doors_;
    std::vector<LinkListener*> listeners_;
    Neighbours neighbours_;
};

}  // namespace verbatim::softnic
