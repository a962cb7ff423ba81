// The parts that several forms share.
#include "config_text.hpp"

namespace cli {

std::string header_of(const verbatim::ConfigSection& section) {
    return section.is_list ? "[[" + section.name + "]]" : "[" + section.name + "]";
}

std::string_view first_section_of(const verbatim::ConfigKey& key) {
    for (const verbatim::ConfigKey& other : verbatim::config_keys())
        if (other.name == key.name && other.help == key.help) return other.section;
    return key.section;
}

std::string wrapped(std::string_view text, std::string_view prefix, std::size_t width) {
    std::string all;
    std::size_t used = 0;  // letters of the last line; 0: there is none
    while (!text.empty()) {
        const std::size_t space = text.find(' ');
        const std::string_view word = text.substr(0, space);
        if (used != 0 && used + 1 + word.size() <= width) {
            all += ' ';
            used += 1 + word.size();
        } else {
            if (used != 0) all += '\n';
            all += prefix;
            used = prefix.size() + word.size();
        }
        all += word;
        text = space == std::string_view::npos ? "" : text.substr(space + 1);
    }
    return all + '\n';
}

}  // namespace cli
