// The syntax of Debian control files (deb822(5)): stanzas of "Name: value" fields with continuation
// lines. Knows nothing about what fields mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/driver/error.hpp>

namespace packages {

// Where a piece of input stands; errors name it.
struct Place {
    std::string_view file;
    std::size_t line;
};

// An Error(invalid_argument) whose object is "FILE, line N".
verbatim::Error input_error(Place place, const std::string& cause, const std::string& remedy = {});

struct RawField {
    std::string_view name;
    std::string_view
        value;  // trimmed at both ends; continuation lines still carry their leading blank
    std::size_t line;
};

struct Stanza {
    std::vector<RawField> fields;
    std::size_t line;  // of its first field

    // The field, whatever the case of its name; null if there is none.
    const RawField* find(std::string_view name) const noexcept;
};

// The file's bytes. Throws Error(invalid_argument) if it cannot be read or holds no text.
std::string read_file(const std::string& path);

// The views point into `text`, which must outlive them. Throws input_error.
std::vector<Stanza> parse_control_file(std::string_view text, std::string_view file_name);

// Without leading and trailing blanks, tabs, carriage returns and newlines.
std::string_view trim(std::string_view text) noexcept;
// ASCII, as field names are.
bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

}  // namespace packages
