// The settings of a program: `example-settings` shows rings and named arenas of ./verbatim.toml, or
// of the file that VERBATIM_CONFIG names. VERBATIM_RING_BYTES=64K sets the rings without a file.
#include <cstdio>

#include <verbatim/core/context.hpp>

int main() try {
    verbatim::Config config = verbatim::Config::found();
    config.connect.timeout = std::chrono::seconds(2);  // what the program itself says comes last
    verbatim::Context context(config);
    std::printf("rings of %zu bytes\n", config.ring.bytes);
    for (const verbatim::ArenaOptions& options : config.named_arenas) {
        const verbatim::Arena& arena = context.arena(options.name);
        std::printf("arena %s: %zu bytes\n", options.name.c_str(), arena.usage().reserved_bytes);
    }
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "example-settings: %s\n", error.what());
    return 1;
}
