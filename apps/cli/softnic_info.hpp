// verbatim softnic info [--json]: the devices of the software NIC that programs of this user have
// open, their queue pairs, and what they have counted.
#pragma once

#include <CLI/CLI.hpp>

namespace cli {

class SoftnicInfo {
  public:
    void add_to(CLI::App& softnic);
    bool chosen() const { return command_ != nullptr && command_->parsed(); }
    // Prints; 0. Throws verbatim::Error.
    int operator()() const;

  private:
    CLI::App* command_ = nullptr;
    bool json_ = false;
};

}  // namespace cli
