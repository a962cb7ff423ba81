// verbatim stat [PID] [--json | --prometheus], and verbatim top: the counts of running programs.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cli {

class Stat {
  public:
    void add_to(CLI::App& app);
    bool chosen() const { return stat_ != nullptr && (stat_->parsed() || top_->parsed()); }
    // Prints; 0, or 1 where the process that was asked for has no telemetry. Throws
    // verbatim::Error.
    int operator()() const;

  private:
    int print_once() const;
    int print_again() const;

    CLI::App *stat_ = nullptr, *top_ = nullptr;
    unsigned long process_ = 0;  // 0: all
    std::string directory_;
    bool json_ = false, prometheus_ = false;
    double interval_ = 1;  // seconds
    unsigned rounds_ = 0;  // 0: until it is ended
};

}  // namespace cli
