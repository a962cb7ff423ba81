// Log lines go to stderr, for people: "verbatim: warning: ...". The level is read once from
// VERBATIM_LOG (error | warn | info | debug; default warn). A line is formatted on the stack (cut
// at 1 KiB) and written by one system call. So lines of several threads and processes never mix,
// and logging never allocates. Threads: any. Not for the data path: only control-path code and
// error transitions log.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace verbatim::log {

enum class Level : std::uint8_t { error, warn, info, debug };

// The level of a value of VERBATIM_LOG; unknown texts mean the default.
constexpr Level parse_level(std::string_view text) noexcept {
    if (text == "error") return Level::error;
    if (text == "info") return Level::info;
    if (text == "debug") return Level::debug;
    return Level::warn;
}

inline Level level() noexcept {
    static const Level chosen = [] {
        const char* text = std::getenv("VERBATIM_LOG");
        return parse_level(text == nullptr ? std::string_view{} : std::string_view{text});
    }();
    return chosen;
}

inline bool enabled(Level wanted) noexcept { return wanted <= level(); }

namespace detail {

inline constexpr std::size_t kLineBytes = 1024;

constexpr std::string_view prefix(Level level) noexcept {
    switch (level) {
        case Level::error:
            return "verbatim: error: ";
        case Level::warn:
            return "verbatim: warning: ";
        case Level::info:
            return "verbatim: ";
        case Level::debug:
            return "verbatim: debug: ";
    }
    return "verbatim: ";
}

template <class... Args>
void line(Level level, fmt::format_string<Args...> format, Args&&... args) noexcept {
    if (!enabled(level)) return;
    std::array<char, kLineBytes> text;
    const std::string_view head = prefix(level);
    std::size_t used = head.copy(text.data(), head.size());
    try {
        const std::size_t room = text.size() - used - 1;
        const auto end =
            fmt::format_to_n(text.data() + used, room, format, std::forward<Args>(args)...);
        used = static_cast<std::size_t>(end.out - text.data());
    } catch (...) {
        // A formatter that throws costs its text, not the caller.
    }
    text[used++] = '\n';
    // A closed or full stderr is no error.
    if (::write(STDERR_FILENO, text.data(), used) < 0) return;
}

}  // namespace detail

// Something failed and is being reported to the caller as well, or cannot be reported otherwise.
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) noexcept {
    detail::line(Level::error, format, std::forward<Args>(args)...);
}
// A warning, with its remedy: the program works, but not as the user would like.
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) noexcept {
    detail::line(Level::warn, format, std::forward<Args>(args)...);
}
// Choices made on the user's behalf: device, port, page size.
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) noexcept {
    detail::line(Level::info, format, std::forward<Args>(args)...);
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
    detail::line(Level::debug, format, std::forward<Args>(args)...);
}

}  // namespace verbatim::log
