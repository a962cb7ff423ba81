// Telemetry as JSON.
#include <nlohmann/json.hpp>

#include "port_counters.hpp"
#include "telemetry_fields.hpp"
#include "telemetry_text.hpp"

namespace cli {
namespace {

using nlohmann::json;
using namespace verbatim::telemetry;

template <class Counts, std::size_t kSize>
json fields_of(const Counts& counts, const std::array<Field<Counts>, kSize>& fields) {
    json object{{"id", counts.id}};
    for (const auto& field : fields) object[field.name] = counts.*field.value;
    return object;
}

json channel_of(const ChannelCounts& counts) {
    json object{{"messages", counts.messages}, {"bytes", counts.bytes}};
    if (counts.channel == kOtherChannels)
        object["channel"] = "other";
    else
        object["channel"] = counts.channel;
    return object;
}

json connection_of(const ConnectionCounts& counts) {
    json object = fields_of(counts, kConnectionFields);
    object["lane"] = counts.lane;
    object["queue_pair"] = counts.queue_pair;
    object["peer"] = text_of(counts.peer);
    object["transport"] = text_of(counts.transport);
    object["wire_overhead"] = wire_overhead(counts);
    object["channels"] = json::array();
    for (std::size_t i = 0; i < counts.channel_count; ++i)
        object["channels"].push_back(channel_of(counts.channels[i]));
    return object;
}

json histogram_of(const NamedHistogram& one) {
    json object{{"connection", one.connection},       {"count", one.times.count()},
                {"sum_ns", one.times.sum_ns},         {"p50_ns", one.times.quantile(0.5)},
                {"p99_ns", one.times.quantile(0.99)}, {"p999_ns", one.times.quantile(0.999)},
                {"max_ns", one.times.quantile(1)}};
    object["of"] = one.channel == kOtherChannels ? json("operations") : json(one.channel);
    return object;
}

json poller_of(const PollerCounts& one) {
    return {{"id", one.id},     {"name", text_of(one.name)}, {"thread", one.thread},
            {"lane", one.lane}, {"cpu_ns", one.cpu_ns},      {"core", one.core}};
}

json process_of(const Process& process) {
    json object{{"pid", process.pid},
                {"program", process.program},
                {"segment", process.path},
                {"runs", process.runs}};
    for (const char* const list :
         {"devices", "lanes", "pollers", "arenas", "connections", "histograms"})
        object[list] = json::array();
    for (const auto& one : process.devices)
        object["devices"].push_back(
            {{"id", one.id},
             {"name", text_of(one.name)},
             {"kind", text_of(one.kind)},
             {"port", one.port},
             {"port_counters",
              port_counters(kPortCounters, std::string(text_of(one.name)), one.port)}});
    for (const auto& one : process.lanes) {
        object["lanes"].push_back(fields_of(one, kLaneFields));
        object["lanes"].back()["flushed_ns"] = one.flushed_ns;
    }
    for (const auto& one : process.pollers) object["pollers"].push_back(poller_of(one));
    for (const auto& one : process.arenas) {
        object["arenas"].push_back(fields_of(one, kArenaFields));
        object["arenas"].back()["name"] = text_of(one.name);
    }
    for (const auto& one : process.connections) object["connections"].push_back(connection_of(one));
    for (const auto& one : process.histograms) object["histograms"].push_back(histogram_of(one));
    return object;
}

}  // namespace

std::string to_json(const Processes& processes) {
    json all{{"processes", json::array()}};
    for (const Process& process : processes) all["processes"].push_back(process_of(process));
    // A path may hold bytes that are no UTF-8.
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace cli
