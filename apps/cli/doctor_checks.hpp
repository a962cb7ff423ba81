// What `verbatim doctor` looks at. Threads: one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace cli {

enum class State { ok, limited, missing };

// What does not work where the state is `missing`. `limited` breaks nothing.
enum class Breaks { nothing, fast_path, default_path };

struct Finding {
    std::string name;  // of the prerequisite, one word
    State state = State::ok;
    Breaks breaks = Breaks::nothing;
    std::string found;   // what is there
    std::string why;     // what it is for
    std::string remedy;  // a command; empty where nothing is to be done
};

// The machine's files below `root`, where /proc and /sys are; what system calls say comes from this
// process.
std::vector<Finding> look_at_memory(const std::filesystem::path& root);
std::vector<Finding> look_at_kernel(const std::filesystem::path& root);
std::vector<Finding> look_at_devices(const std::filesystem::path& root);

}  // namespace cli
