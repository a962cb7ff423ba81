// Reads the file and says where.
#include <verbatim/config/toml_document.hpp>

#include <fstream>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include <verbatim/driver/error.hpp>

namespace verbatim {
namespace {

std::string place(std::string_view name, const toml::source_region& where) {
    return fmt::format("{}:{}", name, where.begin.line);
}

}  // namespace

TomlDocument::TomlDocument(std::string_view text, std::string_view name, std::string_view example)
    : name_(name) {
    try {
        table_ = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        throw Error(Errc::config_error, place(name, error.source()),
                    std::string(error.description()), fmt::format("see {} for the form", example));
    }
}

std::string TomlDocument::read_file(const std::string& path, const std::string& remedy) {
    std::ifstream file(path, std::ios::binary);
    std::string text;
    try {
        text.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    } catch (const std::ios_base::failure&) {  // a folder
        file.setstate(std::ios_base::badbit);
    }
    if (!file.is_open() || file.bad())
        throw Error(Errc::config_error, path, "cannot read this configuration file", remedy);
    return text;
}

std::string TomlDocument::at(const toml::node& node) const { return place(name_, node.source()); }

void TomlDocument::refuse(const toml::node& node, const std::string& cause,
                          const std::string& remedy) const {
    throw Error(Errc::config_error, at(node), cause, remedy);
}

std::string as_written(const toml::node& node) {
    std::ostringstream out;
    node.visit([&](const auto& concrete) { out << concrete; });
    return out.str();
}

}  // namespace verbatim
