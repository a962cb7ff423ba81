// verbatim doctor [--json]: every prerequisite and limit of this machine and user, each with its
// state, why it matters, and the command that mends it.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cli {

class Doctor {
  public:
    void add_to(CLI::App& app);
    bool chosen() const { return command_ != nullptr && command_->parsed(); }
    // Prints. 0: the default and the fast path work; 1: the default works; 2: it does not.
    int operator()() const;

  private:
    CLI::App* command_ = nullptr;
    bool json_ = false;
    std::string root_ = "/";
};

}  // namespace cli
