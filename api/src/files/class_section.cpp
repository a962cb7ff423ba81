#include "class_section.hpp"

#include <cstring>
#include <string_view>

#include "graph_format.hpp"

namespace verbatim::objects::file {

std::string text_of(std::span<const ClassFact> classes) {
    std::string text;
    for (const ClassFact& one : classes) {
        const ClassHeader head{one.fingerprint, static_cast<std::uint32_t>(one.name.size()),
                               static_cast<std::uint32_t>(one.layout.size())};
        text.append(reinterpret_cast<const char*>(&head), sizeof head);
        text += one.name;
        text += one.layout;
        text.resize(round_to(text.size(), 8));
    }
    return text;
}

bool read_classes(std::span<const std::byte> bytes, std::vector<ClassFact>& classes) {
    classes.clear();
    while (!bytes.empty()) {
        ClassHeader head;
        if (bytes.size() < sizeof head || classes.size() == ToldClasses::kMost) return false;
        std::memcpy(&head, bytes.data(), sizeof head);
        const std::uint64_t text_bytes = std::uint64_t{head.name_bytes} + head.layout_bytes;
        const std::uint64_t all = round_to(sizeof head + text_bytes, 8);
        if (head.layout_bytes > kMostLayoutBytes || all > bytes.size()) return false;
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof head,
                                    text_bytes);
        classes.push_back({head.fingerprint, std::string(text.substr(0, head.name_bytes)),
                           std::string(text.substr(head.name_bytes))});
        bytes = bytes.subspan(all);
    }
    return true;
}

}  // namespace verbatim::objects::file
