// Bursts of frames.
#include <algorithm>
#include <array>
#include <cstring>

#include <rte_errno.h>
#include <rte_ethdev.h>

#include "dpdk_device.hpp"

namespace verbatim::softnic {
namespace {

// Threads that DPDK knows have caches of buffers.
class KnownThread {
  public:
    KnownThread() noexcept : known_(rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() == 0) {}
    ~KnownThread() {
        if (known_) rte_thread_unregister();
    }
    KnownThread(const KnownThread&) = delete;
    KnownThread& operator=(const KnownThread&) = delete;

  private:
    const bool known_;
};

void make_thread_known() noexcept { thread_local const KnownThread known; }

void fill(rte_mbuf& buffer, const OutgoingFrame& frame) noexcept {
    auto* const start = rte_pktmbuf_mtod(&buffer, std::byte*);
    const std::size_t room = rte_pktmbuf_tailroom(&buffer);
    std::size_t used = std::min(frame.headers.size(), room);
    std::memcpy(start, frame.headers.data(), used);
    for (const iovec& piece : frame.pieces) {
        const std::size_t part = std::min(piece.iov_len, room - used);
        std::memcpy(start + used, piece.iov_base, part);
        used += part;
    }
    buffer.data_len = static_cast<std::uint16_t>(used);
    buffer.pkt_len = static_cast<std::uint32_t>(used);
}

}  // namespace

// A frame in several buffers is longer than the MTU: it goes no further.
std::size_t DpdkDevice::receive(std::span<ReceivedFrame> frames) noexcept {
    std::array<rte_mbuf*, kBurst> buffers;
    const auto most = static_cast<std::uint16_t>(std::min(frames.size(), kBurst));
    const std::uint16_t got = rte_eth_rx_burst(port_, 0, buffers.data(), most);
    std::size_t count = 0;
    for (std::uint16_t i = 0; i < got; ++i) {
        rte_mbuf& buffer = *buffers[i];
        if (buffer.nb_segs == 1)
            frames[count++] = {rte_pktmbuf_mtod(&buffer, std::byte*), buffer.data_len, &buffer};
        else
            rte_pktmbuf_free(&buffer);
    }
    return count;
}

void DpdkDevice::release(std::span<void* const> owners) noexcept {
    for (void* const owner : owners) rte_pktmbuf_free(static_cast<rte_mbuf*>(owner));
}

std::size_t DpdkDevice::send(std::span<const OutgoingFrame> frames) noexcept {
    make_thread_known();
    std::array<rte_mbuf*, kBurst> buffers;
    const auto count = static_cast<unsigned>(std::min(frames.size(), kBurst));
    if (rte_pktmbuf_alloc_bulk(pool_, buffers.data(), count) != 0) return 0;
    for (unsigned i = 0; i < count; ++i) fill(*buffers[i], frames[i]);
    const std::span burst(buffers.data(), count);
    if (sending_.try_enter()) {
        transmit(burst);
    } else {
        const unsigned kept = rte_ring_mp_enqueue_burst(
            waiting_, reinterpret_cast<void**>(buffers.data()), count, nullptr);
        rte_pktmbuf_free_bulk(buffers.data() + kept, count - kept);
        if (!sending_.enter()) return count;
        transmit_waiting();
    }
    while (!sending_.leave()) transmit_waiting();
    return count;
}

void DpdkDevice::transmit(std::span<rte_mbuf*> buffers) noexcept {
    const auto count = static_cast<std::uint16_t>(buffers.size());
    const std::uint16_t sent = rte_eth_tx_burst(port_, 0, buffers.data(), count);
    if (sent < count) rte_pktmbuf_free_bulk(buffers.data() + sent, count - sent);
}

void DpdkDevice::transmit_waiting() noexcept {
    std::array<rte_mbuf*, kBurst> buffers;
    while (const unsigned count = rte_ring_sc_dequeue_burst(
               waiting_, reinterpret_cast<void**>(buffers.data()), kBurst, nullptr))
        transmit({buffers.data(), count});
}

}  // namespace verbatim::softnic
