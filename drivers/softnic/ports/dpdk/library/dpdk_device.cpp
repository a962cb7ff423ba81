// Set-up of a port.
#include "dpdk_device.hpp"

#include <algorithm>
#include <cstdlib>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

namespace verbatim::softnic {
namespace {

constexpr unsigned kBuffers = 8191, kCachedBuffers = 128, kWaitingFrames = 1024;
constexpr std::uint16_t kDescriptors = 1024;
constexpr auto kAnySocket = static_cast<unsigned>(SOCKET_ID_ANY);
constexpr std::size_t kEthernetHeader = 14, kVlanTag = 4;

std::string name_in(const std::string& device) { return device.substr(0, device.find(',')); }

// Names of pools and rings are one list for the whole process.
std::string own_name(const char* what, std::uint16_t port) {
    return std::string("verbatim_") + what + std::to_string(port);
}

std::size_t buffer_bytes(std::size_t mtu) {
    const std::size_t frame = mtu + kEthernetHeader + kVlanTag;
    return RTE_PKTMBUF_HEADROOM + std::max<std::size_t>((frame + 63) / 64 * 64, 2048);
}

}  // namespace

DpdkDevice::DpdkDevice(const EthernetSettings& settings) : name_(name_in(settings.device)) {
    try {
        find(settings);
        set_up(settings.mtu);
        if (settings.hears_groups) hear_groups();
    } catch (...) {
        close();
        throw;
    }
}

DpdkDevice::~DpdkDevice() { close(); }

void DpdkDevice::fail(const char* step, int cause, const char* remedy) const {
    throw EthernetProblem{"DPDK device " + name_,
                          std::string(step) + ": " + rte_strerror(std::abs(cause)), remedy};
}

// Devices stay open: it may be known by its number already, or with other settings.
void DpdkDevice::need_unused() const {
    if (rte_ring_lookup(own_name("waiting", port_).c_str()) != nullptr)
        fail("port", EEXIST, "name a port in one way, with equal settings, in all of the program");
}

void DpdkDevice::find(const EthernetSettings& settings) {
    const bool numbered = name_.find_first_not_of("0123456789") == std::string::npos;
    if (settings.host && numbered) {
        port_ = static_cast<std::uint16_t>(std::strtoul(name_.c_str(), nullptr, 10));
        if (!rte_eth_dev_is_valid_port(port_))
            fail("port number", ENODEV, "name a port that this program has");
        return need_unused();
    }
    if (rte_eth_dev_get_port_by_name(name_.c_str(), &port_) == 0) {
        if (settings.host) return need_unused();
        fail("name", EEXIST,
             "let each device have its own name (net_memif0, net_memif1), and equal settings in "
             "all of "
             "the program");
    }
    if (settings.host) fail("name", ENODEV, "name a port that this program has set up");
    const int refused = rte_dev_probe(settings.device);
    if (refused < 0)
        fail("probe", refused,
             "check the device's name and parameters, and that its driver is installed (package "
             "librte-net-*23)");
    probed_ = true;
    const int missing = rte_eth_dev_get_port_by_name(name_.c_str(), &port_);
    if (missing != 0) fail("probe", missing, "name a device of Ethernet");
}

void DpdkDevice::set_up(std::size_t mtu) {
    rte_eth_conf conf{};
    conf.rxmode.mtu = static_cast<std::uint32_t>(mtu);
    const int refused = rte_eth_dev_configure(port_, 1, 1, &conf);
    // The host has started it: then it is used as it is.
    if (refused == -EBUSY && !probed_) return read_facts();
    if (refused != 0) fail("configure", refused, "choose an mtu that the device has (dpdk_mtu)");
    start_queues();
    read_facts();
}

// A host's port has kept the one of the last link.
void DpdkDevice::make_pool(std::size_t mtu) {
    const std::string name = own_name("frames", port_);
    if (pool_ == nullptr && !probed_) pool_ = rte_mempool_lookup(name.c_str());
    if (pool_ == nullptr)
        pool_ =
            rte_pktmbuf_pool_create(name.c_str(), kBuffers, kCachedBuffers, 0,
                                    static_cast<std::uint16_t>(buffer_bytes(mtu)), SOCKET_ID_ANY);
}

void DpdkDevice::start_queues() {
    std::uint16_t mtu = RTE_ETHER_MTU;
    rte_eth_dev_get_mtu(port_, &mtu);
    make_pool(mtu);
    if (pool_ == nullptr) fail("buffers", rte_errno, "give the EAL more memory (-m 256)");
    std::uint16_t in = kDescriptors, out = kDescriptors;
    rte_eth_dev_adjust_nb_rx_tx_desc(port_, &in, &out);
    int refused = rte_eth_rx_queue_setup(port_, 0, in, kAnySocket, nullptr, pool_);
    if (refused == 0) refused = rte_eth_tx_queue_setup(port_, 0, out, kAnySocket, nullptr);
    if (refused == 0) refused = rte_eth_dev_start(port_);
    if (refused != 0)
        fail("start", refused,
             "look at what DPDK has printed; a client of memif starts after its server");
    started_ = true;
}

// What the device cannot do, it may do anyway: memif filters nothing.
void DpdkDevice::hear_groups() noexcept {
    if (rte_eth_allmulticast_enable(port_) != 0) rte_eth_promiscuous_enable(port_);
}

void DpdkDevice::read_facts() {
    rte_ether_addr address{};
    rte_eth_macaddr_get(port_, &address);
    std::copy_n(address.addr_bytes, mac_.size(), mac_.begin());
    std::uint16_t mtu = RTE_ETHER_MTU;
    rte_eth_dev_get_mtu(port_, &mtu);
    mtu_ = mtu;
    make_pool(mtu);
    waiting_ = rte_ring_create(own_name("waiting", port_).c_str(), kWaitingFrames, SOCKET_ID_ANY,
                               RING_F_SC_DEQ);
    if (pool_ == nullptr || waiting_ == nullptr)
        fail("buffers", rte_errno, "give the EAL more memory (-m 256)");
}

void DpdkDevice::close() noexcept {
    if (started_) rte_eth_dev_stop(port_);
    rte_eth_dev_info facts{};
    const bool known = probed_ && rte_eth_dev_info_get(port_, &facts) == 0;
    if (probed_) rte_eth_dev_close(port_);
    if (known) rte_dev_remove(facts.device);
    if (waiting_ != nullptr) rte_ring_free(waiting_);
    // A host's port may still hold buffers of it.
    if (probed_ && pool_ != nullptr) rte_mempool_free(pool_);
}

}  // namespace verbatim::softnic
