// Reading and splitting control files.
#include "packages/control_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>

namespace packages {

namespace {

using verbatim::Errc;
using verbatim::Error;

constexpr std::string_view kBlanks = " \t\r\n";

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// deb822(5): printable ASCII but blanks and colons, and not starting with '#' or '-'.
bool is_field_name(std::string_view name) noexcept {
    if (name.empty() || name.front() == '#' || name.front() == '-') return false;
    return std::all_of(name.begin(), name.end(),
                       [](char c) { return c > ' ' && c < '\x7f' && c != ':'; });
}

// What an error message may show of a line of unknown content.
std::string shown(std::string_view line) {
    std::string text(line.substr(0, 40));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return fmt::format("\"{}{}\"", text, line.size() > 40 ? "..." : "");
}

class Splitter {
  public:
    explicit Splitter(std::string_view file) : file_(file) {}

    void line(std::string_view text, std::size_t number) {
        if (trim(text).empty()) {
            finish_stanza();
        } else if (text.front() == ' ' || text.front() == '\t') {
            continue_field(text, number);
        } else {
            start_field(text, number);
        }
    }

    std::vector<Stanza> finish() {
        finish_stanza();
        return std::move(stanzas_);
    }

  private:
    void start_field(std::string_view text, std::size_t number) {
        const std::size_t colon = text.find(':');
        if (colon == std::string_view::npos || !is_field_name(text.substr(0, colon)))
            throw input_error({file_, number},
                              fmt::format("expected \"Name: value\", found {}", shown(text)));
        const std::string_view name = text.substr(0, colon);
        if (open_.find(name) != nullptr)
            throw input_error({file_, number},
                              fmt::format("field \"{}\" stands twice in one stanza", name));
        if (open_.fields.empty()) open_.line = number;
        open_.fields.push_back({name, text.substr(colon + 1), number});
    }

    // A value is one view over all its lines: they are neighbours in the text.
    void continue_field(std::string_view text, std::size_t number) {
        if (open_.fields.empty())
            throw input_error(
                {file_, number},
                fmt::format("a continuation line without a field before it: {}", shown(text)));
        std::string_view& value = open_.fields.back().value;
        value = {value.data(), static_cast<std::size_t>(text.data() + text.size() - value.data())};
    }

    void finish_stanza() {
        if (open_.fields.empty()) return;
        for (RawField& field : open_.fields) field.value = trim(field.value);
        stanzas_.push_back(std::move(open_));
        open_ = {};
    }

    std::string_view file_;
    Stanza open_{};
    std::vector<Stanza> stanzas_;
};

}  // namespace

Error input_error(Place place, const std::string& cause, const std::string& remedy) {
    return {Errc::invalid_argument, fmt::format("{}, line {}", place.file, place.line), cause,
            remedy};
}

std::string_view trim(std::string_view text) noexcept {
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return text.substr(0, 0);
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

const RawField* Stanza::find(std::string_view name) const noexcept {
    for (const RawField& field : fields)
        if (equal_ignoring_case(field.name, name)) return &field;
    return nullptr;
}

std::string read_file(const std::string& path) {
    const auto refuse = [&path](const std::string& cause, const std::string& remedy) {
        return Error(Errc::invalid_argument, path, cause, remedy);
    };
    if (std::error_code ignored; std::filesystem::is_directory(path, ignored))
        throw refuse("is a directory", "name a package database, e.g. /var/lib/dpkg/status");
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw refuse(std::string("cannot be opened: ") + std::strerror(errno),
                     "name a package database with --input, e.g. /var/lib/dpkg/status");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (file.bad()) throw refuse("cannot be read", "check the file system");
    if (text.find('\0') != std::string::npos)
        throw refuse("is not text", "if it is compressed, decompress it first");
    return text;
}

std::vector<Stanza> parse_control_file(std::string_view text, std::string_view file_name) {
    Splitter splitter(file_name);
    for (std::size_t start = 0, number = 1; start < text.size(); ++number) {
        const std::size_t end = std::min(text.find('\n', start), text.size());
        splitter.line(text.substr(start, end - start), number);
        start = end + 1;
    }
    return splitter.finish();
}

}  // namespace packages
