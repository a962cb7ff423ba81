#include <verbatim/objects/spelling.hpp>

namespace verbatim::objects {

std::string spell_template(std::string_view name, std::initializer_list<Spell> arguments) {
    std::string text(name);
    const char* separator = "<";
    for (const Spell argument : arguments) {
        text += separator;
        text += argument();
        separator = ", ";
    }
    return text += '>';
}

std::string spell_container(std::string_view name, Spell element, bool is_polymorphic,
                            std::string_view order) {
    std::string text = spell_template(name, {element});
    text += order;
    if (is_polymorphic) text += " pmr";
    return text;
}

std::string spell_array(std::string_view name, Spell element, std::size_t count) {
    std::string text(name);
    text += '<';
    text += element();
    text += " x ";
    text += std::to_string(count);
    return text += '>';
}

std::string spell_number(char kind, std::size_t bytes) { return kind + std::to_string(bytes * 8); }

std::string spell_name(std::string_view name) {
    constexpr std::string_view kGcc = "{anonymous}", kClang = "(anonymous namespace)";
    std::string text(name);
    for (auto at = text.find(kGcc); at != std::string::npos; at = text.find(kGcc, at))
        text.replace(at, kGcc.size(), kClang);
    return text;
}

}  // namespace verbatim::objects
