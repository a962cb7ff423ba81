// The configuration of `verbatim softnic run`: one TOML file, configs/softnic.toml shows it. What
// it says reaches the program by environment variables, so that the preloaded library reads no
// files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

struct SoftnicConfig {
    std::optional<int> devices;
    std::vector<std::pair<std::string, std::string>> environment;

    // Throws verbatim::Error(config_error) with file, line and remedy; unknown keys are refused.
    static SoftnicConfig from_file(const std::string& path);
    static SoftnicConfig from_text(std::string_view toml, const std::string& name = "<text>");
};

}  // namespace cli
