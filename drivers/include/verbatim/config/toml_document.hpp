// A TOML document reads a configuration file, with errors that name place, mistake and remedy. For
// the files of the library and of its program. Threads: one.
#pragma once

#include <string>
#include <string_view>

#include <toml++/toml.h>

namespace verbatim {

class TomlDocument {
  public:
    // `name`: of the file, for errors; `example`: a file that shows the form. Throws
    // Error(config_error).
    TomlDocument(std::string_view text, std::string_view name, std::string_view example);

    // The contents of a file. `remedy` is the advice where it cannot be read. Throws
    // Error(config_error).
    static std::string read_file(const std::string& path, const std::string& remedy);

    const toml::table& table() const noexcept { return table_; }
    const std::string& name() const noexcept { return name_; }
    // File and line.
    std::string at(const toml::node& node) const;
    [[noreturn]] void refuse(const toml::node& node, const std::string& cause,
                             const std::string& remedy) const;

  private:
    std::string name_;
    toml::table table_;
};

// A value in the file's own words.
std::string as_written(const toml::node& node);

}  // namespace verbatim
