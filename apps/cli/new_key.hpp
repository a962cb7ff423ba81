// verbatim key FILE: makes the file of a new key for [connect] key_file, which its owner alone may
// read.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace cli {

class NewKey {
  public:
    void add_to(CLI::App& app);
    bool chosen() const { return command_ != nullptr && command_->parsed(); }
    // 0. Throws verbatim::Error. A file that exists stays as it is.
    int operator()() const;

  private:
    CLI::App* command_ = nullptr;
    std::string path_;
};

}  // namespace cli
