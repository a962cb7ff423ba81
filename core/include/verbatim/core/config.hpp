// The configuration is one TOML file, every key with a default; docs/configuration.md documents
// them all.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/registration_cache.hpp>

namespace verbatim {

// How a lane waits: always polling, polling for a while and then asleep, or asleep at once.
enum class LaneMode : std::uint8_t { busy, adaptive, event };

struct Config {
    struct DeviceSection {
        std::string kind =
            "auto";  // "auto": an RDMA device if there is one, else softnic; "softnic"; "rdma"
        std::string name;  // RDMA device name, empty: the first active one
        int port = 1;      // RDMA port
        // -1: the RoCE v2 entry that fits the connection's address, else the one with the widest
        // scope
        int gid_index = -1;
        int service_level = 0;         // RDMA: 0 .. 15
        int traffic_class = 0;         // RDMA: 0 .. 255
        bool assume_in_order = false;  // RDMA: assume write order, do not ask the device
        // RDMA. "mlx5": we write the device's queues. "verbs": rdma-core does. "auto": mlx5 where
        // the device has such queues.
        std::string data_path = "auto";
        bool strict_doorbells = false;  // softnic: refuse doorbells that disagree with the ring
        bool same_user_only = true;     // softnic: share memory with the same user only
    } device;
    // [device.softnic]
    struct SoftnicSection {
        // The way to peers. "shm": memory that both sides share, on one host. "tcp": a TCP stream
        // for each connection. "udp": RoCEv2 packets. "auto": shm, and where that is refused udp or
        // tcp. Both sides must agree. "dpdk:<device>": packets through DPDK.
        std::string port = "auto";
        // File for the packets of the udp port and the dpdk port, as pcapng; empty: none.
        std::string capture;
        // What goes wrong with them, in the words of softnic::parse_packet_faults(); empty:
        // nothing.
        std::string packet_faults;
        std::string eal = "own";  // or "host": the program has set up DPDK's environment
        std::string dpdk_address, dpdk_peer_mac;
        std::size_t dpdk_mtu = 0;  // 0: as DPDK has it
    } softnic;
    ArenaOptions arena{.name = "arena"};
    ArenaOptions receive_arena{.name = "receive_arena"};
    // Further ones, for Context::arena(name); a [[named_arena]] section each.
    std::vector<ArenaOptions> named_arenas;
    RegistrationOptions foreign;  // memory outside of arenas, for RegistrationCache(context)
    struct ConnectSection {
        std::chrono::milliseconds timeout{5000};  // for every step of connecting and accepting
        bool loopback_only = true;  // listen refuses other addresses unless set to false
        // Of the key by which both sides prove themselves, docs/authentication.md; empty: none.
        std::string key_file;
        // Of silence, after which the kernel probes the peer's machine three times; 0: never.
        std::chrono::seconds keep_alive{3};
        // Without a message either way: the connection is closed; 0: never.
        std::chrono::milliseconds idle_timeout{0};
    } connect;
    struct RingSection {
        std::size_t bytes = std::size_t{1} << 20;  // each direction, power of two, 4 KiB .. 64 MiB
        std::uint32_t send_blocks = 32;            // send queue length in 64-byte blocks
        // Longest message that a peer may send; it is kept in memory of its own where it is longer
        // than a quarter of the ring.
        std::size_t longest_message = std::size_t{16} << 20;
    } ring;
    struct LaneSection {
        LaneMode mode = LaneMode::adaptive;
        std::chrono::microseconds spin{20};  // adaptive: before sleeping
        std::uint32_t hot = 16;              // connections whose memory is polled; others announce
        // Entries of the completion queue to begin with; a connection takes send_blocks + 2. Where
        // the device cannot lengthen it, the lane gets further ones, which it polls, too.
        std::uint32_t completions = 1024;
    } lane;
    // A dedicated thread that drives lanes; a [[poller]] section each.
    struct PollerSection {
        std::string name;    // in messages, and of the thread; "" is "poller N"
        int core = -1;       // that it runs on; -1: any
        int numa_node = -1;  // on any core of that node; -1: any
        LaneMode mode = LaneMode::adaptive;
        std::chrono::microseconds spin{20};  // adaptive: before sleeping
    };
    std::vector<PollerSection> pollers;
    // Counts that other processes read while this one runs: docs/telemetry.md.
    struct TelemetrySection {
        bool enabled = true;
        std::chrono::milliseconds interval{100};  // between two writes of a lane that polls
        bool histograms = false;                  // times of operations and handlers
        std::string directory;                    // of segments; "": telemetry.hpp says which
    } telemetry;
    struct ObjectsSection {
        // A graph whose image is no longer than this goes in one message, if the ring has such.
        std::size_t eager_bytes = std::size_t{32} << 10;
        // Memory that this side lends for longer ones: at once at most, and for all connections of
        // the context. Graphs that have come count no more.
        std::size_t window_max = std::size_t{32} << 20;
        std::size_t window_budget = std::size_t{4} << 30;
        std::size_t max_graph_bytes = std::size_t{1} << 30;  // of one graph that comes in
        // For the program to release received graphs that hold all the memory.
        std::chrono::milliseconds window_wait{10000};
        bool hostile = false;  // copy what peers wrote into private memory before looking at it
        std::chrono::milliseconds timeout{30000};  // for a peer that stops in mid-transfer
    } objects;

    // softnic: the fault policy of [[fault]] sections, in the syntax of
    // verbatim/softnic/fault_policy.hpp: "drop operations=send,write nth=5; delay rate=0.01 ...".
    // Empty: no faults. A context on another device is refused.
    std::string faults;

    // That of the file named by $VERBATIM_CONFIG, else of ./verbatim.toml if it exists, else the
    // defaults. Then the environment's variables, VERBATIM_<SECTION>_<KEY>; no thread may change
    // the environment meanwhile. Throws as the next.
    static Config found();
    // The file, then the environment. Throws Error(config_error) with file and line or variable,
    // key and remedy; unknown keys, and unknown variables of a section, are refused.
    static Config from_file(const std::string& path);
    // The text alone; the environment changes nothing.
    static Config from_text(std::string_view toml, std::string_view name = "<text>");
};

}  // namespace verbatim
