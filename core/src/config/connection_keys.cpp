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
              "Refuse to listen on addresses that other machines can reach. Peers are not "
              "authenticated: set this to false only on networks whose every machine you trust.");
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
              "Length of the send queue in 64-byte blocks. A block costs 130 bytes and more of "
              "each connection, half of them in its lane's completion queue. Benchmark group "
              "core was as fast with 64 as with 256.");
}

}  // namespace verbatim
