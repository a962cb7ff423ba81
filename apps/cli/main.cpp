// verbatim: the command line of the library.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include <verbatim/driver/error.hpp>

#include "config/config_command.hpp"
#include "doctor.hpp"
#include "new_key.hpp"
#include "softnic_info.hpp"
#include "softnic_run.hpp"
#include "stat.hpp"

namespace {

// CLI11 says of an unknown word only that a subcommand is missing.
int refuse_unknown(const CLI::App& app, int argc, char** argv) {
    const std::string word = argc > 1 ? argv[1] : "-";
    const auto is_named = [&word](const CLI::App* command) { return command->check_name(word); };
    if (word.starts_with('-') || !app.get_subcommands(is_named).empty()) return 0;
    std::fprintf(stderr, "verbatim: no subcommand '%s'; see verbatim --help\n", word.c_str());
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Verbatim: object graphs over RDMA, and a NIC in software.", "verbatim");
    app.require_subcommand(1);
    cli::Doctor doctor;
    doctor.add_to(app);
    cli::ConfigCommand config;
    config.add_to(app);
    cli::NewKey key;
    key.add_to(app);
    CLI::App& softnic = *app.add_subcommand("softnic", "the NIC in software");
    softnic.require_subcommand(1);
    cli::SoftnicRun run;
    run.add_to(softnic);
    cli::SoftnicInfo info;
    info.add_to(softnic);
    cli::Stat stat;
    stat.add_to(app);
    if (const int status = refuse_unknown(app, argc, argv); status != 0) return status;
    CLI11_PARSE(app, argc, argv);
    try {
        if (doctor.chosen()) return doctor();
        if (config.chosen()) return config();
        if (key.chosen()) return key();
        if (stat.chosen()) return stat();
        return info.chosen() ? info() : run();
    } catch (const verbatim::Error& error) {
        std::fprintf(stderr, "verbatim: %s\n", error.what());
        return 1;
    }
}
