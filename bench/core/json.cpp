#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "report.hpp"

namespace verbatim::bench {
namespace {

using Json = nlohmann::ordered_json;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json base(const Row& row) {
    return {{"group", "core"}, {"case", row.subject.of->name}, {"subject", row.subject.name}};
}

Json measured(const Row& row, const Measure& measure, const Summary& summary) {
    Json one = base(row);
    one["metric"] = measure.name;
    one["best"] = summary.best;
    one["median"] = summary.median;
    one["passes"] = summary.values.size();
    one["values"] = summary.values;
    return one;
}

void add_ratios(Json& to, std::span<const Row> rows, const Row& row) {
    to["times_slower_than_floor"] = or_null(times_slower(row, beside(rows, row, "floor")));
    to["times_slower_than_ucx"] = or_null(times_slower(row, beside(rows, row, "ucx_")));
    for (const Figures& pass : row.passes)
        if (pass.error.empty()) to["samples"].push_back(pass.samples);
}

}  // namespace

Json rows_json(std::span<const Row> rows) {
    Json all = Json::array();
    for (const Row& row : rows) {
        const auto wanted = measures(*row.subject.of);
        for (const Measure& measure : wanted) {
            const std::optional<Summary> summary = summarize(row, measure);
            if (!summary) continue;
            all.push_back(measured(row, measure, *summary));
            if (&measure == &wanted.front()) add_ratios(all.back(), rows, row);
        }
        if (const std::string wrong = failure(row); !wrong.empty()) {
            all.push_back(base(row));
            all.back()["error"] = wrong;
        }
    }
    return all;
}

Json google_json(std::span<const Row> rows) {
    Json all = Json::array();
    for (const Row& row : rows) {
        const Figures& pass = row.passes.front();
        Json one = {{"name", "core/" + row.subject.full_name()}, {"run_type", "iteration"}};
        if (pass.error.empty())
            for (const Measure& measure : measures(*row.subject.of))
                one[std::string(measure.name)] = measure.value(pass);
        else
            one.update({{"error_occurred", true}, {"error_message", pass.error}});
        all.push_back(one);
    }
    return {{"benchmarks", all}};
}

void write_file(const std::string& path, const Json& json) {
    const std::string scratch = path + ".tmp";
    std::ofstream file(scratch);
    file << json.dump(2) << '\n';
    file.close();
    if (!file) throw std::runtime_error("cannot write " + scratch);
    std::filesystem::rename(scratch, path);
}

}  // namespace verbatim::bench
