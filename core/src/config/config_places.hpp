// Places of configuration members, for ConfigAccess: a member of a section that occurs once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <verbatim/core/config.hpp>

namespace verbatim {

template <class Section, class Value>
auto member_at(Section Config::*section, Value Section::*member) {
    return [=](auto& config, std::size_t) -> auto& { return (config.*section).*member; };
}

// A member of section number `item` of a list.
template <class Section, class Value>
auto member_at(std::vector<Section> Config::*list, Value Section::*member) {
    return [=](auto& config, std::size_t item) -> auto& { return (config.*list)[item].*member; };
}

inline constexpr std::int64_t kKibi = 1024, kMebi = kKibi * 1024, kGibi = kMebi * 1024,
                              kTebi = kGibi * 1024;

}  // namespace verbatim
