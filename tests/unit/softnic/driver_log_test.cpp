// Log lines: levels, prefixes, length.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include <verbatim/driver/log.hpp>

namespace verbatim::log {
namespace {

TEST(Log, level_names_are_understood_and_others_mean_warnings) {
    EXPECT_EQ(parse_level("error"), Level::error);
    EXPECT_EQ(parse_level("warn"), Level::warn);
    EXPECT_EQ(parse_level("info"), Level::info);
    EXPECT_EQ(parse_level("debug"), Level::debug);
    EXPECT_EQ(parse_level(""), Level::warn);
    EXPECT_EQ(parse_level("INFO"), Level::warn);
}

// The level is read once per process, so each line comes from a process of its own.
std::string output_of(const char* level, void (*body)()) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("VERBATIM_LOG", level, 1);
        body();
        _exit(0);
    }
    ::close(ends[1]);
    std::string text;
    char part[512];
    for (ssize_t got; (got = read(ends[0], part, sizeof part)) > 0;)
        text.append(part, static_cast<std::size_t>(got));
    ::close(ends[0]);
    waitpid(child, nullptr, 0);
    return text;
}

void say_everything() {
    error("a {}", 1);
    warn("b {}", 2);
    info("c {}", 3);
    debug("d {}", 4);
}

TEST(Log, says_what_the_level_allows) {
    EXPECT_EQ(output_of("error", say_everything), "verbatim: error: a 1\n");
    EXPECT_EQ(output_of("warn", say_everything), "verbatim: error: a 1\nverbatim: warning: b 2\n");
    EXPECT_EQ(
        output_of("debug", say_everything),
        "verbatim: error: a 1\nverbatim: warning: b 2\nverbatim: c 3\nverbatim: debug: d 4\n");
}

TEST(Log, long_lines_are_cut_and_ended) {
    const std::string text = output_of("warn", [] { warn("{}", std::string(5000, 'x')); });
    EXPECT_EQ(text.size(), 1024u);
    EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace verbatim::log
