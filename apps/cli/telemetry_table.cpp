// Telemetry as a table, with rates where something was read before.
#include <algorithm>

#include <fmt/format.h>

#include "telemetry_text.hpp"

namespace cli {
namespace {

using namespace verbatim::telemetry;

// "1.23M": at most five characters.
std::string amount(double value) {
    constexpr std::string_view kUnits[] = {"", "k", "M", "G", "T", "P", "E"};
    std::size_t unit = 0;
    for (; value >= 10'000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
    return fmt::format("{:.0f}{}", value, kUnits[unit]);
}

// The total, or what was added a second.
class Column {
  public:
    explicit Column(double seconds) : seconds_(seconds) {}
    std::string operator()(std::uint64_t now, std::uint64_t before) const {
        if (seconds_ <= 0) return amount(static_cast<double>(now));
        return amount(static_cast<double>(now - std::min(now, before)) / seconds_) + "/s";
    }

  private:
    double seconds_;
};

template <class Counts>
Counts find(const std::vector<Counts>* list, std::uint64_t id) {
    if (list != nullptr)
        for (const Counts& one : *list)
            if (one.id == id) return one;
    return {};
}

void add_connections(std::string& text, const Process& process, const Process* before,
                     double seconds) {
    if (process.connections.empty()) return;
    const Column column(seconds);
    text += fmt::format("  {:<4} {:<21} {:<5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>5}\n",
                        "conn", "peer", "by", "sent", "bytes", "received", "bytes", "one-sided",
                        "blocked", "failed", "wire");
    for (const ConnectionCounts& one : process.connections) {
        const auto then = find(before == nullptr ? nullptr : &before->connections, one.id);
        text += fmt::format(
            "  {:<4} {:<21} {:<5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6} {:>5.2f}\n", one.id,
            text_of(one.peer), text_of(one.transport),
            column(one.messages_sent, then.messages_sent), column(one.bytes_sent, then.bytes_sent),
            column(one.messages_received, then.messages_received),
            column(one.bytes_received, then.bytes_received),
            column(one.reads + one.writes + one.atomics, then.reads + then.writes + then.atomics),
            column(one.would_block, then.would_block), one.requests_failed, wire_overhead(one));
    }
}

void add_lanes(std::string& text, const Process& process, const Process* before, double seconds) {
    const Column column(seconds);
    for (const LaneCounts& one : process.lanes) {
        const auto then = find(before == nullptr ? nullptr : &before->lanes, one.id);
        text += fmt::format(
            "  lane {:<3} {} connections, {} polled; polls {}, events {}, sleeps {}; {} ended\n",
            one.id, one.connections, one.polled, column(one.polls, then.polls),
            column(one.events, then.events), column(one.sleeps, then.sleeps), one.ended);
    }
    for (const PollerCounts& one : process.pollers) {
        const auto then = find(before == nullptr ? nullptr : &before->pollers, one.id);
        const double used = static_cast<double>(one.cpu_ns - std::min(one.cpu_ns, then.cpu_ns));
        text += fmt::format("  poller {} on lane {}, core {}, CPU {}\n", text_of(one.name),
                            one.lane, one.core,
                            seconds > 0 ? fmt::format("{:.0f} %", used / seconds / 1e7)
                                        : fmt::format("{:.2f} s", used / 1e9));
    }
}

void add_others(std::string& text, const Process& process) {
    for (const DeviceCounts& one : process.devices)
        text += fmt::format("  device {} ({}), port {}\n", text_of(one.name), text_of(one.kind),
                            one.port);
    for (const ArenaCounts& one : process.arenas)
        text += fmt::format("  arena {}: {}B live, {}B populated, {}B at most\n", text_of(one.name),
                            amount(static_cast<double>(one.live)),
                            amount(static_cast<double>(one.populated)),
                            amount(static_cast<double>(one.peak)));
    for (const NamedHistogram& one : process.histograms)
        if (one.times.count() != 0)
            text += fmt::format(
                "  {} of connection {}: {} times, p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns\n",
                one.channel == kOtherChannels ? "operations"
                                              : fmt::format("handler of channel {}", one.channel),
                one.connection, one.times.count(), one.times.quantile(0.5),
                one.times.quantile(0.99), one.times.quantile(0.999), one.times.quantile(1));
}

}  // namespace

std::string to_table(const Processes& processes, const Processes& before, double seconds) {
    std::string text;
    for (const Process& process : processes) {
        const auto then = std::ranges::find_if(
            before, [&](const Process& one) { return one.path == process.path; });
        const Process* const last = then == before.end() ? nullptr : &*then;
        const double since = last == nullptr ? 0 : seconds;
        text += fmt::format("process {} ({}){}\n", process.pid, process.program,
                            process.runs ? "" : ", which was killed: its last counts");
        add_connections(text, process, last, since);
        add_lanes(text, process, last, since);
        add_others(text, process);
    }
    return text.empty() ? "none of your programs has telemetry\n" : text;
}

// Headers of RoCE v2 over Ethernet: 14 + 4 (frame), 20 (IPv4), 8 (UDP), 12 (BTH), 4 (ICRC), and 16
// (RETH) in the first packet of a write; of the tcp port: frame header and write body.
double wire_overhead(const ConnectionCounts& counts) noexcept {
    if (counts.bytes_sent == 0) return 0;
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    const double writes = number(counts.records_sent + counts.pads_sent + counts.credits_sent);
    double bytes = number(counts.bytes_sent) + 16 * number(counts.records_sent + counts.pads_sent) +
                   8 * number(counts.batched_messages + counts.credits_sent) +
                   16 * number(counts.fragments_sent);
    const std::string_view transport = text_of(counts.transport);
    if (transport == "rdma" || transport == "udp" || transport == "dpdk")
        bytes += 78 * writes + 62 * (bytes / 4096);
    if (transport == "tcp") bytes += 32 * writes;
    return bytes / number(counts.bytes_sent);
}

}  // namespace cli
