// Telemetry as Prometheus' text: each metric once, with its help and type, then its samples.
#include <fmt/format.h>

#include "port_counters.hpp"
#include "telemetry_fields.hpp"
#include "telemetry_text.hpp"

namespace cli {
namespace {

using namespace verbatim::telemetry;

// The value of a label: texts of segments hold printable ASCII only.
std::string label_text(std::string_view text) {
    std::string value = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') value += '\\';
        value += c;
    }
    return value + '"';
}

std::string labels_of(const Process& process) {
    const std::size_t slash = process.path.rfind('/');
    return fmt::format("pid=\"{}\",program={},context={}", process.pid, label_text(process.program),
                       label_text(std::string_view(process.path).substr(slash + 1)));
}

class Metrics {
  public:
    explicit Metrics(const Processes& processes) : processes_(processes) {}

    // `each(process)`: its objects. `labels(object)`: theirs, beside those of the process.
    template <class Fields, class Each, class Labels>
    void add(const char* object, const Fields& fields, Each each, Labels labels) {
        for (const auto& field : fields) {
            const bool counts = field.kind == FieldKind::counter;
            const std::string name =
                fmt::format("verbatim_{}_{}{}", object, field.name, counts ? "_total" : "");
            begin(name, field.help, counts ? "counter" : "gauge");
            for (const Process& process : processes_)
                for (const auto& one : each(process))
                    sample(name, process, labels(one), one.*field.value);
        }
    }
    void begin(const std::string& name, const char* help, const char* type) {
        text_ += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
    }
    template <class Value>
    void sample(const std::string& name, const Process& process, const std::string& labels,
                Value value) {
        text_ += fmt::format("{}{{{}{}{}}} {}\n", name, labels_of(process),
                             labels.empty() ? "" : ",", labels, value);
    }
    std::string take() { return std::move(text_); }

  private:
    const Processes& processes_;
    std::string text_;
};

std::string labels_of(const ConnectionCounts& one) {
    return fmt::format("connection=\"{}\",peer={},transport={}", one.id,
                       label_text(text_of(one.peer)), label_text(text_of(one.transport)));
}

std::string name_of(std::uint64_t channel, const char* others) {
    return channel == kOtherChannels ? others : fmt::format("{}", channel);
}

void add_channels(const Processes& processes, Metrics& metrics) {
    for (const auto value : {&ChannelCounts::messages, &ChannelCounts::bytes}) {
        const bool is_bytes = value == &ChannelCounts::bytes;
        const std::string name =
            fmt::format("verbatim_channel_{}_received_total", is_bytes ? "bytes" : "messages");
        metrics.begin(name, is_bytes ? "Bytes by channel." : "Messages by channel.", "counter");
        for (const Process& process : processes)
            for (const ConnectionCounts& one : process.connections)
                for (std::size_t i = 0; i < one.channel_count; ++i)
                    metrics.sample(name, process,
                                   fmt::format("connection=\"{}\",channel=\"{}\"", one.id,
                                               name_of(one.channels[i].channel, "other")),
                                   one.channels[i].*value);
    }
}

void add_pollers(const Processes& processes, Metrics& metrics) {
    const std::string name = "verbatim_poller_cpu_seconds_total";
    metrics.begin(name, "CPU time of the poller's thread.", "counter");
    for (const Process& process : processes)
        for (const PollerCounts& one : process.pollers)
            metrics.sample(
                name, process,
                fmt::format("poller={},lane=\"{}\"", label_text(text_of(one.name)), one.lane),
                static_cast<double>(one.cpu_ns) / 1e9);
}

void add_ports(const Processes& processes, Metrics& metrics) {
    const std::string name = "verbatim_port_counter_total";
    metrics.begin(name, "What the kernel counts of the device's port.", "counter");
    for (const Process& process : processes)
        for (const DeviceCounts& one : process.devices)
            for (const auto& [counter, value] :
                 port_counters(kPortCounters, std::string(text_of(one.name)), one.port))
                metrics.sample(
                    name, process,
                    fmt::format("device={},port=\"{}\",counter={}", label_text(text_of(one.name)),
                                one.port, label_text(counter)),
                    value);
}

// Buckets at powers of four, whose samples are few; quantiles of `stat` are finer.
void add_histograms(const Processes& processes, Metrics& metrics) {
    const std::string name = "verbatim_latency_seconds";
    metrics.begin(name, "Times of operations, and of handlers by channel.", "histogram");
    for (const Process& process : processes)
        for (const NamedHistogram& one : process.histograms) {
            const std::string labels = fmt::format("connection=\"{}\",of=\"{}\"", one.connection,
                                                   name_of(one.channel, "operations"));
            std::uint64_t below = 0;
            std::size_t bucket = 0;
            for (std::uint64_t bound = 256; bound <= std::uint64_t{1} << 36; bound *= 4) {
                while (bucket < Histogram::kBuckets && Histogram::end_of(bucket) <= bound)
                    below += one.times.counts[bucket++];
                metrics.sample(
                    name + "_bucket", process,
                    fmt::format("{},le=\"{}\"", labels, static_cast<double>(bound) / 1e9), below);
            }
            metrics.sample(name + "_bucket", process, labels + ",le=\"+Inf\"", one.times.count());
            metrics.sample(name + "_sum", process, labels,
                           static_cast<double>(one.times.sum_ns) / 1e9);
            metrics.sample(name + "_count", process, labels, one.times.count());
        }
}

}  // namespace

std::string to_prometheus(const Processes& processes) {
    Metrics metrics(processes);
    metrics.begin("verbatim_up", "The process runs; 0: it was killed.", "gauge");
    for (const Process& process : processes)
        metrics.sample("verbatim_up", process, "", process.runs ? 1 : 0);
    metrics.add(
        "connection", kConnectionFields,
        [](const Process& process) -> const auto& { return process.connections; },
        [](const ConnectionCounts& one) { return labels_of(one); });
    metrics.add(
        "lane", kLaneFields, [](const Process& process) -> const auto& { return process.lanes; },
        [](const LaneCounts& one) { return fmt::format("lane=\"{}\"", one.id); });
    metrics.add(
        "arena", kArenaFields, [](const Process& process) -> const auto& { return process.arenas; },
        [](const ArenaCounts& one) {
            return fmt::format("arena={}", label_text(text_of(one.name)));
        });
    add_channels(processes, metrics);
    add_pollers(processes, metrics);
    add_ports(processes, metrics);
    add_histograms(processes, metrics);
    return metrics.take();
}

}  // namespace cli
