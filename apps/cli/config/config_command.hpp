// verbatim config: the configuration in effect, what each key means, a check of a file, and the
// texts that are made from the table of keys.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cli {

class ConfigCommand {
  public:
    void add_to(CLI::App& app);
    bool chosen() const { return command_ != nullptr && command_->parsed(); }
    // Prints; 0. Throws verbatim::Error.
    int operator()() const;

  private:
    std::string text() const;

    CLI::App* command_ = nullptr;
    std::string key_, file_;
    bool markdown_ = false, toml_ = false;
};

}  // namespace cli
