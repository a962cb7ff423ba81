// The software NIC is a device that executes mlx5-format queues in the threads that ring and poll
// them. Same-host peers reach each other through shared memory, others by packets
// (docs/roce-port.md) or TCP streams (docs/tcp-port.md); nothing else of it
// is visible above the Device interface.
//
// Rules for programs, on the shm port. By TCP every request ends when the peer has answered, and an
// engine thread executes it there where the target does not poll:
// - The posting thread executes one-sided requests on arena memory (a MemoryBacking with a file)
//   before the post returns. The target does no work. Two-sided requests and immediates are
//   delivered when the target polls any of its completion queues, and completed at the sender when
//   it polls in turn. Where a program does not poll for milliseconds, a thread of its device (the
//   absent poller) does this in its place, and goes on with requests that had to wait.
// - Order: of one write into arena memory the last aligned 8 bytes become visible last (release).
//   Aligned writes of 1, 2, 4 or 8 bytes are single stores. So a target may poll memory. Requests
//   posted before a send or an immediate are in place when the peer sees that message arrive. A
//   later one-sided request may become visible before an earlier send is delivered. Completions
//   come in posting order: a send that is not delivered yet holds back those after it.
// - Memory registered without a file is reached by cross-memory attach: one system call per
//   request. That needs ptrace rights over the peer, and the target must not poll the memory.
//   Atomics on it are executed by the target, when it polls any of its completion queues.
// - Keys are enforced by the requester against the target's own table. A released key fails at
//   once, and release waits until copies that had begun are over (docs/revocation.md). But a peer
//   that breaks the rules keeps its mapping of a file.
// - The thread that runs the send queue opens, closes and invalidates memory windows of both types.
//   A send with invalidate does so in the thread of the receive queue. A refused key update is
//   window_bind (0x06). A send with invalidate must name an open window of type 2 of the receiving
//   queue pair. Else it fails there with local_access (0x11), and at the sender with remote_access
//   (0x13).
// - A thread that sleeps for an event of an armed completion queue does not run the engine. Its
//   receives must have been posted before it armed the queue; later ones are found by the absent
//   poller.
// - The absent poller is one more thread that touches memory of requests and receives. It has all
//   signals blocked, so a program's handler of SIGSEGV does not hear of accesses of this thread.
// - After fork() the child's copies of devices and queues are dead (requests are flushed); it opens
//   its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <verbatim/driver/device.hpp>
#include <verbatim/softnic/fault_policy.hpp>
#include <verbatim/softnic/packet_faults.hpp>

namespace verbatim::softnic {

// The way to peers. Automatic: shared memory; where that is refused (another host, another network
// namespace, another user) udp, if the peer answers a packet; else tcp. The log says why. Both
// sides must have one in common.
enum class PortKind : std::uint8_t { automatic, shm, tcp, udp, dpdk };

// The device of the dpdk port, which sends the udp port's packets as Ethernet frames (docs/
// dpdk-port.md). Equal ones of a process share it.
struct DpdkOptions {
    // As DPDK names it, with its parameters, and behind a space arguments of the EAL. With host_eal
    // the name or number of a port.
    std::string device;
    bool host_eal = false;  // the program calls rte_eal_init() itself, before
    std::string address;    // of IP; empty: the IPv6 address that follows from the MAC address
    std::string peer_mac;   // where all frames go; empty: it is found out
    std::size_t mtu = 0;    // of IP; 0: as DPDK has it

    auto operator<=>(const DpdkOptions&) const = default;
};

// Of the udp port and the dpdk port.
struct PacketOptions {
    // The time without a sign of a peer after which it is taken for lost.
    std::chrono::milliseconds timeout{60000};
    // File to which packets that are sent and received are appended, as pcapng; empty: none. Of the
    // shm and tcp ports: what the udp port would have sent for their requests. Costs a system call
    // for each packet.
    std::string capture{};
    DpdkOptions dpdk{};  // of PortKind::dpdk
};

struct Options {
    std::string name = "softnic0";
    PortKind port = PortKind::automatic;
    // Refuse every doorbell whose register, record, queue number, BlueFlame half or copy disagree
    // with the ring.
    bool strict_doorbells = false;
    // No hooks: nothing happens until execute(). For benchmarks of posting and for tests.
    bool parked = false;
    // Memory is shared with processes of this process's user only.
    bool same_user_only = true;
    std::uint32_t completion_entry_bytes = 64;  // or 128
    // Sizes (4 | 8) of atomics whose results arrive in big endian, as mlx5::QueuePairView has it. A
    // ConnectX whose firmware was not told the host's byte order has both.
    std::uint32_t big_endian_results = 4;
    // Of each queue pair's two-sided ring, power of two. 0: kShortRing, but kLongRing for the first
    // kLongRings that are connected at a time. So programs with few queue pairs send long messages
    // in few turns. Ten thousand queue pairs cost little.
    std::size_t ring_bytes = 0;
    // The fault policy. A request that waits by it (a delay, or a loss before the next try) goes on
    // when the program polls, or the absent poller looks.
    FaultPolicy faults{};
    PacketFaults packet_faults{};
    PacketOptions packets{};
    std::chrono::milliseconds request_timeout{
        2000};  // for a memory file that the data path must ask for
    // The wait for a peer that is stopped inside a copy, at the end of a region, a window or a
    // queue pair (docs/revocation.md).
    std::chrono::milliseconds revocation_timeout{2000};
    // Revocations use membarrier(2) where the kernel has it and the peer does too. Without it every
    // one-sided request costs a fence. For tests.
    bool membarrier = true;
    // A thread takes messages, and goes on with requests that wait for that, while their program
    // neither posts nor polls. For tests.
    bool absent_poller = true;
};

// Throws Error(invalid_argument | out_of_memory | device_error).
[[gnu::visibility("default")]] std::unique_ptr<Device> open_device(const Options& options = {});

// Of queue pairs made by this device only.

// Runs the engine on one queue pair until it must wait, as a doorbell and a poll would. Any thread.
[[gnu::visibility("default")]] void execute(QueuePairHandle& queue_pair) noexcept;
// The reason of the queue pair's failure, as a sentence; empty without one.
[[gnu::visibility("default")]] std::string failure_text(const QueuePairHandle& queue_pair);
// The number of times a message for this queue pair's peer found no receive posted there.
[[gnu::visibility("default")]] std::uint64_t receiver_not_ready_count(
    const QueuePairHandle& queue_pair) noexcept;

// The number of times the device's fault policy struck requests of this queue pair with this
// action. Any thread.
[[gnu::visibility("default")]] std::uint64_t faults_injected(const QueuePairHandle& queue_pair,
                                                             FaultAction action) noexcept;

// Packets of a queue pair of the udp port since it was connected: those sent, those of them sent
// again, and those received and dropped, because they were malformed, changed on their way, not for
// this queue pair, or not from its peer. Zeros on other ports. Any thread, but not beside a reset.
struct PacketCounts {
    std::uint64_t sent = 0, repeated = 0, dropped = 0;
};
[[gnu::visibility("default")]] PacketCounts packet_counts(
    const QueuePairHandle& queue_pair) noexcept;

}  // namespace verbatim::softnic
