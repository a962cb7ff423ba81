// Chooses the text that was asked for.
#include "config_command.hpp"

#include <cstdio>

#include <verbatim/config/toml_document.hpp>
#include <verbatim/core/config_reference.hpp>

#include "config_text.hpp"

namespace cli {
namespace {

// Of the file alone, so that the answer is the same in every shell.
std::string check_file(const std::string& path) {
    const std::string text =
        verbatim::TomlDocument::read_file(path, "check the path and its permissions");
    (void)verbatim::TracedConfig::from_text(text, path);
    return path + ": ok\n";
}

}  // namespace

void ConfigCommand::add_to(CLI::App& app) {
    command_ = app.add_subcommand("config", "shows the configuration in effect, and its keys");
    command_->add_option("key", key_, "explains a key (ring.bytes), a section or a variable");
    command_->add_option("--check", file_, "reads a file and says its first mistake, or \"ok\"");
    command_->add_flag("--toml", toml_, "prints a file with all keys and their defaults");
    command_->add_flag("--markdown", markdown_, "prints the reference page");
    command_->require_option(0, 1);
    command_->footer(key_overview);
}

std::string ConfigCommand::text() const {
    if (!key_.empty()) return explanation(key_);
    if (!file_.empty()) return check_file(file_);
    if (toml_) return default_file();
    return markdown_ ? reference_page() : effective_file(verbatim::TracedConfig::found());
}

int ConfigCommand::operator()() const {
    std::fputs(text().c_str(), stdout);
    return 0;
}

}  // namespace cli
