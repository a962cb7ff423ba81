// Puts together what the devices say.
#include "softnic_info.hpp"

#include <iostream>
#include <string>

#include <fmt/format.h>
#include <toml++/toml.h>

#include <verbatim/driver/error.hpp>
#include <verbatim/softnic/running.hpp>

namespace cli {
namespace {

using verbatim::softnic::RunningDevice;

// What the device said, with whose it is; "answers" is false where it said nothing.
toml::table table_of(const RunningDevice& device) {
    toml::table table;
    bool answers = !device.description.empty();
    try {
        table = toml::parse(device.description);
    } catch (const toml::parse_error&) {
        answers = false;
    }
    table.insert_or_assign("process", static_cast<std::int64_t>(device.process));
    table.insert_or_assign("program", device.program);
    table.insert_or_assign("answers", answers);
    if (!table.contains("queue_pairs")) table.insert_or_assign("queue_pairs", toml::array{});
    return table;
}

std::int64_t number(const toml::table& table, std::string_view key) {
    return table[key].value_or(std::int64_t{0});
}

std::string faults_of(const toml::table& pair) {
    std::string text;
    if (const toml::table* const faults = pair["faults"].as_table())
        for (const auto& [action, count] : *faults)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", action.str(),
                                count.value_or(std::int64_t{0}));
    return text.empty() ? "none" : text;
}

void print_pair(const toml::table& pair) {
    const auto peer = pair["peer"].value<std::int64_t>();
    fmt::print("  {:<10} {:<9} {:<5} {:<10} {:>12} {:>12} {:>15} {:>15} {:>9}  {}\n",
               number(pair, "number"), pair["transport"].value_or(""), pair["state"].value_or(""),
               peer ? std::to_string(*peer) : "none", number(pair, "requests"),
               number(pair, "messages"), number(pair, "bytes_sent"), number(pair, "bytes_received"),
               number(pair, "not_ready"), faults_of(pair));
}

void print_device(const toml::table& device) {
    const bool answers = device["answers"].value_or(false);
    const toml::array& pairs = *device["queue_pairs"].as_array();
    fmt::print("{} of process {} ({}), {}\n", device["name"].value_or("a device"),
               number(device, "process"), device["program"].value_or(""),
               answers ? fmt::format("{} queue pair{}", pairs.size(), pairs.size() == 1 ? "" : "s")
                       : std::string("does not answer: it is stopped, or of another version"));
    if (pairs.empty()) return;
    fmt::print("  {:<10} {:<9} {:<5} {:<10} {:>12} {:>12} {:>15} {:>15} {:>9}  {}\n", "queue pair",
               "transport", "state", "peer", "requests", "messages", "bytes sent", "bytes received",
               "not ready", "faults");
    for (const toml::node& pair : pairs)
        if (const toml::table* const table = pair.as_table()) print_pair(*table);
}

}  // namespace

void SoftnicInfo::add_to(CLI::App& softnic) {
    command_ = softnic.add_subcommand(
        "info", "shows the devices in software that your programs have open, and their counters");
    command_->add_flag("--json", json_, "for programs");
}

int SoftnicInfo::operator()() const {
    toml::array devices;
    for (const RunningDevice& device : verbatim::softnic::running_devices())
        devices.push_back(table_of(device));
    if (json_) {
        const toml::table all{{"devices", std::move(devices)}};
        std::cout << toml::json_formatter(all) << '\n';
    } else if (devices.empty()) {
        fmt::print("none of your programs has a device of the software NIC open\n");
    } else {
        for (const toml::node& device : devices) print_device(*device.as_table());
    }
    return 0;
}

}  // namespace cli
