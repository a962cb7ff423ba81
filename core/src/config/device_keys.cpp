// Keys of [device] and [device.softnic].
#include <verbatim/softnic/packet_faults.hpp>

#include "config_places.hpp"
#include "config_table.hpp"
#include "dpdk_prefix.hpp"

namespace verbatim {
namespace {

using DeviceKeys = Config::DeviceSection;

// Words that stand for themselves.
template <class Place>
ConfigAccess own_word_access(Place place, std::initializer_list<std::string_view> words) {
    std::vector<std::pair<std::string_view, std::string>> meanings;
    for (const std::string_view word : words) meanings.emplace_back(word, word);
    return word_access(place, std::move(meanings));
}

// One of the words, or a device of DPDK.
ConfigAccess port_access() {
    const auto place = member_at(&Config::softnic, &Config::SoftnicSection::port);
    const ConfigAccess words = own_word_access(place, {"auto", "shm", "tcp", "udp"});
    const ConfigAccess text = text_access(place);
    const auto set = [words, text](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* const wanted = std::get_if<std::string>(&value);
        const bool device = wanted != nullptr && wanted->starts_with(kDpdkPrefix) &&
                            wanted->size() > kDpdkPrefix.size();
        return device ? text.set(config, item, value) : words.set(config, item, value);
    };
    return {"\"auto\", \"shm\", \"tcp\", \"udp\" or \"dpdk:<device>\"", set, text.get};
}

ConfigAccess packet_faults_access() {
    const ConfigAccess text =
        text_access(member_at(&Config::softnic, &Config::SoftnicSection::packet_faults));
    const auto set = [text](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* const wanted = std::get_if<std::string>(&value);
        return wanted != nullptr && softnic::are_packet_faults(*wanted) &&
               text.set(config, item, value);
    };
    return {softnic::kPacketFaultsAllowed, set, text.get};
}

void add_choice(ConfigTable& table) {
    table.begin("device", "The device that carries messages.");
    table.add(
        "kind",
        own_word_access(member_at(&Config::device, &DeviceKeys::kind), {"auto", "softnic", "rdma"}),
        "\"auto\": an RDMA device if this machine has one, else the software NIC. "
        "\"softnic\" or \"rdma\": that one.");
    table.add("name", text_access(member_at(&Config::device, &DeviceKeys::name)),
              "Name of the RDMA device (\"mlx5_0\"). Empty: the first one with an active port, "
              "those with mlx5 queues first.");
    table.add("port", number_access(member_at(&Config::device, &DeviceKeys::port), {1, 255}),
              "Port of the RDMA device.");
}

void add_packets(ConfigTable& table) {
    table.add("gid_index",
              number_access(member_at(&Config::device, &DeviceKeys::gid_index), {-1, 255}),
              "Entry of the RDMA port's GID table. -1: the RoCE v2 entry of the address that a "
              "connection is made over, where the port has it. Else, and over a Unix socket, the "
              "entry that reaches furthest (IPv4, global IPv6, site-local, link-local), which is "
              "logged.");
    table.add("service_level",
              number_access(member_at(&Config::device, &DeviceKeys::service_level), {0, 15}),
              "Service level of RDMA packets; over Ethernet the priority of the frames, 0 to 7.");
    table.add("traffic_class",
              number_access(member_at(&Config::device, &DeviceKeys::traffic_class), {0, 255}),
              "Traffic class of RDMA packets: DSCP in the upper six bits, ECN in the lower two.");
    table.add("assume_in_order",
              flag_access(member_at(&Config::device, &DeviceKeys::assume_in_order)),
              "Messages are found by polling memory, which needs devices that write the bytes of "
              "a message in order. false: an RDMA device that does not promise that is refused. "
              "true: it is taken for granted. That is right only where adaptive routing and "
              "relaxed ordering are off (docs/driver.md, \"Order of bytes\").");
    table.add("data_path",
              own_word_access(member_at(&Config::device, &DeviceKeys::data_path),
                              {"auto", "mlx5", "verbs"}),
              "The way of work to an RDMA device. \"mlx5\": Verbatim writes the queues of a "
              "ConnectX by itself. \"verbs\": through rdma-core's ibv_post_send, for any device. "
              "\"auto\": mlx5 where the device has such queues, else verbs.");
}

void add_dpdk(ConfigTable& table) {
    using Keys = Config::SoftnicSection;
    table.add(
        "eal", own_word_access(member_at(&Config::softnic, &Keys::eal), {"own", "host"}),
        "Port \"dpdk:\": DPDK's environment. \"own\": it is set up for this port. \"host\": the "
        "program has called rte_eal_init(), and the device is the name or number of its port.");
    table.add("dpdk_address", text_access(member_at(&Config::softnic, &Keys::dpdk_address)),
              "Port \"dpdk:\": its IP address. Empty: the IPv6 address that follows from its MAC "
              "address.");
    table.add(
        "dpdk_peer_mac", text_access(member_at(&Config::softnic, &Keys::dpdk_peer_mac)),
        "Port \"dpdk:\": the MAC address that all frames go to, a router's or the peer's. "
        "Empty: it is found out (ARP, neighbour discovery), or follows from its IPv6 address.");
    table.add("dpdk_mtu", number_access(member_at(&Config::softnic, &Keys::dpdk_mtu), {0, 9000}),
              "Port \"dpdk:\": bytes of the longest IP packet. 0: as DPDK has it, mostly 1500.");
}

void add_software_nic(ConfigTable& table) {
    table.add("strict_doorbells",
              flag_access(member_at(&Config::device, &DeviceKeys::strict_doorbells)),
              "Software NIC: refuse doorbells that disagree with the queue, as a debugging aid "
              "(slower).");
    table.add("same_user_only",
              flag_access(member_at(&Config::device, &DeviceKeys::same_user_only)),
              "Software NIC: share memory with peers of the same user only. false: with any local "
              "user who can reach the listener.");
    table.begin("device.softnic", "The software NIC alone.");
    table.add("port", port_access(),
              "The software NIC's way to its peers. \"shm\": shared memory, between processes of "
              "one host. \"tcp\": a TCP stream for each connection. \"udp\": RoCEv2 packets over "
              "UDP (docs/roce-port.md). \"dpdk:<device>\": the same packets through a device of "
              "DPDK (docs/dpdk-port.md). \"auto\": shm. Where shared memory is refused (another "
              "host, network namespace, container or user): udp, if the peer answers a packet, "
              "else tcp (docs/tcp-port.md). The log says which and why. The two sides must have "
              "one in common.");
    table.add("capture", text_access(member_at(&Config::softnic, &Config::SoftnicSection::capture)),
              "File to which packets are appended, as pcapng for Wireshark and tshark: those of "
              "the udp and dpdk ports, and what requests of the shm and tcp ports would be on a "
              "RoCE wire (docs/roce-port.md). Costs a system call for each packet. Empty: none.");
    table.add(
        "packet_faults", packet_faults_access(),
        "What goes wrong with packets that the udp and dpdk ports send, to try a program on a "
        "bad network, each a share of them; the same seed, the same faults "
        "(docs/roce-port.md). Empty: nothing.");
    add_dpdk(table);
}

}  // namespace

void add_device_keys(ConfigTable& table) {
    add_choice(table);
    add_packets(table);
    add_software_nic(table);
}

}  // namespace verbatim
