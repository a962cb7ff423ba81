// Keys of [device] and [device.softnic].
#include "config_places.hpp"
#include "config_table.hpp"

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
    table.add("port",
              own_word_access(member_at(&Config::softnic, &Config::SoftnicSection::port),
                              {"auto", "shm", "tcp", "udp"}),
              "The software NIC's way to its peers. \"shm\": shared memory, between processes of "
              "one host. \"tcp\": a TCP stream for each connection. \"udp\": RoCEv2 packets over "
              "UDP (docs/roce-port.md). \"auto\": shm. Where shared memory is refused (another "
              "host, network namespace, container or user): udp, if the peer answers a packet, "
              "else tcp (docs/tcp-port.md). The log says which and why. The two sides must have "
              "one in common.");
    table.add("capture", text_access(member_at(&Config::softnic, &Config::SoftnicSection::capture)),
              "File to which the packets of the udp port are appended, as pcapng for Wireshark "
              "and tshark (docs/roce-port.md). Costs a system call for each packet. Empty: none.");
}

}  // namespace

void add_device_keys(ConfigTable& table) {
    add_choice(table);
    add_packets(table);
    add_software_nic(table);
}

}  // namespace verbatim
