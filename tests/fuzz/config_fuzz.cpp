// Configuration files and variables of the environment. The first byte of the input says how many
// of its lines are variables; the rest is the file.
#include <string>

#include "config/config_parts.hpp"
#include "fuzz_target.hpp"

using namespace verbatim;

namespace {

// What was accepted is written in a way that is accepted again, and means the same.
void require_round_trip(const TracedConfig& traced) {
    const auto keys = config_keys();
    for (const ConfigSection& section : config_sections())
        for (std::size_t item = 0; item < traced.count(section); ++item) {
            std::string text =
                (section.is_list ? "[[" : "[") + section.name + (section.is_list ? "]]\n" : "]\n");
            for (std::size_t i = 0; i < keys.size(); ++i)
                if (keys[i].section == section.name)
                    text += keys[i].name + " = " + traced.value(i, item) + '\n';
            const TracedConfig again = read_toml(text, "again");
            for (std::size_t i = 0; i < keys.size(); ++i)
                if (keys[i].section == section.name)
                    fuzz::require(again.value(i) == traced.value(i, item));
        }
}

std::string as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    fuzz::Input input(data, bytes);
    const auto count = static_cast<std::size_t>(input.number(1)) % 16;
    std::string text = as_text(input.take(input.left()));
    std::vector<std::string> lines;
    for (std::size_t end = text.find('\n'); lines.size() < count && end != std::string::npos;
         end = text.find('\n')) {
        lines.push_back(text.substr(0, end));
        text.erase(0, end + 1);
    }
    std::vector<const char*> environment;
    for (const std::string& line : lines) environment.push_back(line.c_str());
    environment.push_back(nullptr);
    TracedConfig traced;
    try {
        traced = read_toml(text, "file");
        apply_environment(traced, environment.data());
        check_together(traced);
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::config_error && !error.cause().empty());
    }
    require_round_trip(traced);  // also of what the environment or the checks refused half-way
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    const auto add = [&](const std::string& input) {
        const auto bytes = std::as_bytes(std::span(input));
        seeds.emplace_back(bytes.begin(), bytes.end());
    };
    std::string all(1, '\0');
    for (const ConfigSection& section : config_sections()) {
        if (section.is_list) continue;
        all += '[' + section.name + "]\n";
        for (const ConfigKey& key : config_keys())
            if (key.section == section.name) all += key.name + " = " + key.default_value + '\n';
    }
    add(all);
    add(std::string("\3VERBATIM_RING_BYTES=64K\nVERBATIM_DEVICE_NAME=mlx5_0\n") +
        "VERBATIM_OBJECTS_CHECKSUM=true\n[lane]\nspin = \"5us\"\n");
    add(std::string(1, '\0') + "[[poller]]\ncore = 1\n[[named_arena]]\nname = \"a\"\n" +
        "pages = \"4K\"\n[[named_arena]]\nname = \"b\"\nmax_bytes = \"1G\"\n");
    add(std::string(1, '\0') + "[[fault]]\naction = \"drop\"\nnth = 5\n[arena]\nnuma_node = 0\n");
    return seeds;
}
