// Kinds of configuration values: what each may be, how it is read into a member of the
// configuration, and how that member is written as TOML.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <verbatim/core/config.hpp>

namespace verbatim {

// A value as the file or the environment has it.
using ConfigValue = std::variant<bool, std::int64_t, std::string>;

// The way to one member. `item`: which section of a list, else 0.
struct ConfigAccess {
    std::string allowed;
    // False, and nothing changed: the value is not allowed.
    std::function<bool(Config&, std::size_t item, const ConfigValue&)> set;
    std::function<std::string(const Config&, std::size_t item)> get;
    bool required = false;
};

enum class Shape { any, power_of_two };

struct ValueRange {
    std::int64_t least, most;
    Shape shape = Shape::any;
    bool admits(std::int64_t value) const;
};

// "64M" for a size that is a multiple of a unit, else the number. `quote` is put around the former.
std::string size_text(std::int64_t bytes, std::string_view quote);
// In the largest unit that it is a multiple of; 0 in `unit`.
std::string duration_text(std::chrono::nanoseconds time, std::chrono::nanoseconds unit);
std::string toml_text(std::string_view text);

std::optional<std::int64_t> size_of(const ConfigValue& value);
std::optional<std::chrono::nanoseconds> duration_of(const ConfigValue& value);

std::string allowed_sizes(const ValueRange& range);
std::string allowed_numbers(const ValueRange& range);
std::string allowed_durations(std::chrono::nanoseconds least, std::chrono::nanoseconds most,
                              std::chrono::nanoseconds unit);
std::string allowed_words(const std::vector<std::string_view>& words);

// A place is a function of (Config or const Config, item) to a reference to the member.
template <class Place>
using MemberAt = std::remove_cvref_t<std::invoke_result_t<Place, Config&, std::size_t>>;

template <class Place>
ConfigAccess size_access(Place place, ValueRange range) {
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto bytes = size_of(value);
        if (!bytes || !range.admits(*bytes)) return false;
        place(config, item) = static_cast<MemberAt<Place>>(*bytes);
        return true;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        return size_text(static_cast<std::int64_t>(place(config, item)), "\"");
    };
    return {allowed_sizes(range), set, get};
}

template <class Place>
ConfigAccess number_access(Place place, ValueRange range) {
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* number = std::get_if<std::int64_t>(&value);
        if (number == nullptr || !range.admits(*number)) return false;
        place(config, item) = static_cast<MemberAt<Place>>(*number);
        return true;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        return std::to_string(place(config, item));
    };
    return {allowed_numbers(range), set, get};
}

// Refuses what the member cannot hold exactly: "1500us" is no whole number of milliseconds.
template <class Place>
ConfigAccess duration_access(Place place, std::chrono::nanoseconds least,
                             std::chrono::nanoseconds most) {
    using Unit = MemberAt<Place>;
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto time = duration_of(value);
        if (!time || *time < least || *time > most || *time % Unit(1) != Unit(0)) return false;
        place(config, item) = std::chrono::duration_cast<Unit>(*time);
        return true;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        return toml_text(duration_text(place(config, item), Unit(1)));
    };
    return {allowed_durations(least, most, Unit(1)), set, get};
}

template <class Place>
ConfigAccess flag_access(Place place) {
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* flag = std::get_if<bool>(&value);
        if (flag != nullptr) place(config, item) = *flag;
        return flag != nullptr;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        return std::string(place(config, item) ? "true" : "false");
    };
    return {"true or false", set, get};
}

template <class Place>
ConfigAccess text_access(Place place) {
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* text = std::get_if<std::string>(&value);
        if (text != nullptr) place(config, item) = *text;
        return text != nullptr;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        return toml_text(place(config, item));
    };
    return {"a text", set, get};
}

// A text that must be there: an empty one is refused.
template <class Place>
ConfigAccess name_access(Place place) {
    ConfigAccess access = text_access(place);
    const auto set = [set = access.set](Config& config, std::size_t item,
                                        const ConfigValue& value) {
        const auto* text = std::get_if<std::string>(&value);
        return text != nullptr && !text->empty() && set(config, item, value);
    };
    return {"a text that is not empty", set, access.get, true};
}

// One of some words, each of which stands for a value of the member.
template <class Place>
ConfigAccess word_access(Place place,
                         std::vector<std::pair<std::string_view, MemberAt<Place>>> words) {
    std::vector<std::string_view> names;
    for (const auto& word : words) names.push_back(word.first);
    const auto set = [=](Config& config, std::size_t item, const ConfigValue& value) {
        const auto* text = std::get_if<std::string>(&value);
        for (const auto& [name, meaning] : words)
            if (text != nullptr && name == *text) {
                place(config, item) = meaning;
                return true;
            }
        return false;
    };
    const auto get = [=](const Config& config, std::size_t item) {
        for (const auto& [name, meaning] : words)
            if (meaning == place(config, item)) return toml_text(name);
        return std::string("\"\"");  // set by a program, and none of them
    };
    return {allowed_words(names), set, get};
}

}  // namespace verbatim
