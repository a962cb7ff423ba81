// Keys of [lane] and [[poller]].
#include "config_places.hpp"
#include "config_table.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using LaneKeys = Config::LaneSection;
using PollerKeys = Config::PollerSection;

template <class Place>
ConfigAccess mode_access(Place place) {
    return word_access(
        place,
        {{"adaptive", LaneMode::adaptive}, {"busy", LaneMode::busy}, {"event", LaneMode::event}});
}

void add_lane(ConfigTable& table) {
    table.begin("lane", "Lanes drive connections: they poll, and sleep while nothing comes.");
    table.add("mode", mode_access(member_at(&Config::lane, &LaneKeys::mode)),
              "\"adaptive\": a wait polls for `spin`, then sleeps until something arrives. "
              "\"busy\": it never sleeps; where both sides say so, no wake-ups are sent. "
              "\"event\": it sleeps at once.");
    table.add("spin", duration_access(member_at(&Config::lane, &LaneKeys::spin), 0us, 1s),
              "How long an adaptive wait polls.");
    table.add("hot", number_access(member_at(&Config::lane, &LaneKeys::hot), {1, 1024}),
              "Connections whose memory a lane polls. The peers of all others announce what they "
              "send.");
    table.add(
        "completions",
        number_access(member_at(&Config::lane, &LaneKeys::completions),
                      {64, 4 * kMebi, Shape::power_of_two}),
        "Entries of a lane's completion queue to begin with. Each connection takes "
        "send_blocks + 2; on the software NIC 16, and it lengthens the queue. On RDMA devices "
        "the lane gets a second one of twice the entries, and so on: choose enough, and a "
        "poll looks at one.");
}

std::size_t count_pollers(const Config& config) { return config.pollers.size(); }
void append_poller(Config& config) { config.pollers.emplace_back(); }

void add_poller(ConfigTable& table) {
    table.begin_list("poller", {count_pollers, append_poller},
                     "Dedicated threads that drive lanes of connections. There are none unless "
                     "written here.");
    table.add("name", text_access(member_at(&Config::pollers, &PollerKeys::name)),
              "In messages, and of the thread. Empty: \"poller N\".");
    table.add("core", number_access(member_at(&Config::pollers, &PollerKeys::core), {-1, 4095}),
              "The core it runs on. -1: any.");
    table.add("numa_node",
              number_access(member_at(&Config::pollers, &PollerKeys::numa_node), {-1, 1023}),
              "It runs on any core of that node. -1: of any.");
    table.add("mode", mode_access(member_at(&Config::pollers, &PollerKeys::mode)), "As in [lane].");
    table.add("spin", duration_access(member_at(&Config::pollers, &PollerKeys::spin), 0us, 1s),
              "As in [lane].");
}

}  // namespace

void add_lane_keys(ConfigTable& table) {
    add_lane(table);
    add_poller(table);
}

}  // namespace verbatim
