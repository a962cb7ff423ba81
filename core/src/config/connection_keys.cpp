// Keys of [connect] and [ring].
#include "config_places.hpp"
#include "config_table.hpp"

namespace verbatim {

void add_connection_keys(ConfigTable& table) {
    using namespace std::chrono_literals;
    using Connect = Config::ConnectSection;
    using Ring = Config::RingSection;
    table.begin("connect", "The making of connections.");
    table.add("timeout",
              duration_access(member_at(&Config::connect, &Connect::timeout), 1ms, 1000s),
              "For each step of connecting and accepting.");
    table.add("loopback_only", flag_access(member_at(&Config::connect, &Connect::loopback_only)),
              "Refuse to listen on addresses that other machines can reach. Without key_file peers "
              "are not authenticated, and with it what they send later is neither encrypted nor "
              "authenticated: set this to false only on networks that you trust so far.");
    table.add("key_file", text_access(member_at(&Config::connect, &Connect::key_file)),
              "File with the key by which both sides prove themselves to each other before any "
              "memory is made or named: 32 random bytes, also as hexadecimal digits or base64, "
              "readable by its owner alone. `verbatim key FILE` makes one. Empty: no proofs "
              "(docs/authentication.md).");
    table.add("keep_alive",
              duration_access(member_at(&Config::connect, &Connect::keep_alive), 0s, 3600s),
              "Dead machines: after so much silence on the TCP stream beside a connection the "
              "kernel probes the peer three times, as far apart. So a machine that vanished is "
              "noticed after four times this. 0s: no probes.");
    table.add("idle_timeout",
              duration_access(member_at(&Config::connect, &Connect::idle_timeout), 0s, 86400s),
              "Idle connections: one without a message or one-sided operation of this side for so "
              "long is closed. 0s: none is (docs/connecting.md).");
    table.begin("ring", "The queues of each connection.");
    table.add("bytes",
              size_access(member_at(&Config::ring, &Ring::bytes),
                          {4 * kKibi, 64 * kMebi, Shape::power_of_two}),
              "Message ring of each direction. Longer messages than a quarter of it go in "
              "fragments.");
    table.add("longest_message",
              size_access(member_at(&Config::ring, &Ring::longest_message), {0, 4 * kGibi}),
              "Longest message that a peer may send. Fragments are put together in memory of this "
              "size, for each connection.");
    table.add("send_blocks",
              number_access(member_at(&Config::ring, &Ring::send_blocks),
                            {16, 32768, Shape::power_of_two}),
              "Length of the send queue in 64-byte blocks. A block costs 96 bytes and more of "
              "each connection, and on RDMA devices 64 in its lane's completion queue. "
              "Benchmark group core was as fast with 32 as with 256, but for lists of 100 reads, "
              "which gain 4 % with 64.");
}

}  // namespace verbatim
