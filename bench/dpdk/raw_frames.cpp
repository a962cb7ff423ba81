// A ping-pong of frames on DPDK's port, which the library of the dpdk port has set up.
#include "raw_frames.hpp"

#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "ports/dpdk/ethernet_library.hpp"

namespace verbatim::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Ethernet, IPv6, UDP, BTH, RETH, a record with 8 bytes, ICRC.
constexpr std::uint16_t kFrameBytes = 14 + 40 + 8 + 12 + 16 + 24 + 4;
constexpr std::chrono::milliseconds kLostAfter{20};

// A frame of the peer; null: none came in time.
rte_mbuf* take_frame(const DpdkPage& page, std::chrono::nanoseconds patience) {
    const auto start = Clock::now();
    for (unsigned round = 1; !page.stop.load(std::memory_order_relaxed); ++round) {
        rte_mbuf* frame = nullptr;
        if (rte_eth_rx_burst(0, 0, &frame, 1) == 1) return frame;
        if (round % 1024 == 0 && Clock::now() - start > patience) return nullptr;
    }
    return nullptr;
}

void send_back(rte_mbuf* frame) {
    if (rte_eth_tx_burst(0, 0, &frame, 1) == 0) rte_pktmbuf_free(frame);
}

rte_mbuf* new_frame(rte_mempool* pool) {
    rte_mbuf* const frame = rte_pktmbuf_alloc(pool);
    if (frame == nullptr) throw std::runtime_error("no buffer");
    std::memset(rte_pktmbuf_append(frame, kFrameBytes), 0, kFrameBytes);
    return frame;
}

}  // namespace

void ping_pong_frames(DpdkSide& side) {
    softnic::DpdkOptions options;
    options.device = side.device;
    const auto device = softnic::open_ethernet_device(options);
    rte_thread_register();
    if (!side.first) {
        while (!side.page.stop.load())
            if (rte_mbuf* const frame = take_frame(side.page, kLostAfter)) send_back(frame);
        return;
    }
    rte_mempool* const pool = rte_pktmbuf_pool_create("bench", 1023, 64, 0, 2176, SOCKET_ID_ANY);
    rte_mbuf* frame = nullptr;
    // Until both ends of memif are there.
    while (frame == nullptr) {
        send_back(new_frame(pool));
        frame = take_frame(side.page, kLostAfter);
    }
    while (rte_mbuf* const more = take_frame(side.page, kLostAfter)) rte_pktmbuf_free(more);
    Steps steps;
    do {
        send_back(frame);
        frame = take_frame(side.page, std::chrono::seconds(1));
        if (frame == nullptr) frame = new_frame(pool);
    } while (steps.add());
    side.page.result = steps.median() / 2;
    side.page.stop.store(true);
}

}  // namespace verbatim::bench
