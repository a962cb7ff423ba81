#include <fmt/format.h>

#include <algorithm>

#include "report.hpp"

namespace verbatim::bench {
namespace {

using Cells = std::vector<std::string>;

const Cells kHeader = {"case", "subject", "metric", "median", "best",    "fine",
                       "p99",  "p99.9",   "p99.99", "max",    "x floor", "x UCX"};
constexpr std::size_t kTextColumns = 3;

std::string number(double value) {
    if (value >= 1e9) return fmt::format("{:.2f} G", value / 1e9);
    if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
    if (value >= 1e4) return fmt::format("{:.1f} k", value / 1e3);
    return fmt::format("{:.{}f}", value, value < 10 ? 3 : 1);
}

std::string ratio(const std::optional<double>& value) {
    return value ? fmt::format("{:.2f}", *value) : "-";
}

bool is_of_times(const Subject& subject) {
    return subject.of->kind == Kind::latency || subject.of->kind == Kind::wake;
}

Cells cells(std::span<const Row> rows, const Row& row) {
    const Subject& subject = row.subject;
    const auto measured = measures(*subject.of);
    const auto all = is_of_times(subject) ? measured : measured.first(1);
    Cells line = {std::string(subject.of->name), subject.name, std::string(all.front().name)};
    for (const Measure& measure : all) {
        const std::optional<Summary> summary = summarize(row, measure);
        line.push_back(summary ? number(summary->median) : "FAILED");
        if (&measure == &all.front()) line.push_back(summary ? number(summary->best) : "-");
    }
    line.resize(kHeader.size() - 2, "-");
    line.push_back(ratio(times_slower(row, beside(rows, row, "floor"))));
    line.push_back(ratio(times_slower(row, beside(rows, row, "ucx_"))));
    return line;
}

// The measures behind the first one, where they are no percentiles: each on a line of its own.
void add_other_measures(std::vector<Cells>& lines, const Row& row) {
    if (is_of_times(row.subject)) return;
    for (const Measure& measure : measures(*row.subject.of).subspan(1)) {
        const std::optional<Summary> summary = summarize(row, measure);
        Cells line = {std::string(row.subject.of->name), row.subject.name,
                      std::string(measure.name)};
        line.push_back(summary ? number(summary->median) : "FAILED");
        line.push_back(summary ? number(summary->best) : "-");
        line.resize(kHeader.size(), "-");
        lines.push_back(line);
    }
}

std::vector<std::size_t> widths_of(const std::vector<Cells>& lines) {
    std::vector<std::size_t> widths(kHeader.size());
    for (const Cells& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i)
            widths[i] = std::max(widths[i], line[i].size());
    return widths;
}

std::string padded(const Cells& line, const std::vector<std::size_t>& widths) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i)
        text += i < kTextColumns ? fmt::format("{:<{}}  ", line[i], widths[i])
                                 : fmt::format("{:>{}}  ", line[i], widths[i]);
    text.erase(text.find_last_not_of(' ') + 1);
    return text + '\n';
}

// An empty line between cases.
std::string aligned(const std::vector<Cells>& lines) {
    const std::vector<std::size_t> widths = widths_of(lines);
    std::string text, last;
    for (const Cells& line : lines) {
        if (line[0] != last) text += text.empty() ? "" : "\n";
        last = line[0];
        text += padded(line, widths);
    }
    return text;
}

}  // namespace

std::string table(std::span<const Row> rows) {
    std::vector<Cells> lines = {kHeader};
    for (const Row& row : rows) {
        lines.push_back(cells(rows, row));
        add_other_measures(lines, row);
    }
    std::string text = aligned(lines);
    for (const Row& row : rows)
        if (const std::string wrong = failure(row); !wrong.empty())
            text += fmt::format("FAILED {}: {}\n", row.subject.full_name(), wrong);
    return text;
}

}  // namespace verbatim::bench
