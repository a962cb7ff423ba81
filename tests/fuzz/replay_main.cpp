// Runs a fuzz target without libFuzzer: files named as arguments, or seeds and mutations of them.
// VERBATIM_LONG=1 runs a hundred times as many. `--write-seeds DIR` writes the seeds, for
// libFuzzer. `--mutations N` runs so many; a quarter of them under sanitizers.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

#include "fuzz_target.hpp"
#include "sanitized.hpp"

namespace {

using Bytes = std::vector<std::byte>;

void run(const Bytes& input) {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

Bytes mutated(const std::vector<Bytes>& seeds, std::mt19937_64& random) {
    Bytes input = seeds[random() % seeds.size()];
    for (std::uint64_t i = 0, n = 1 + random() % 6; i < n && !input.empty(); ++i) {
        const std::size_t at = random() % input.size();
        switch (random() % 6) {
            case 0:
                input[at] ^= static_cast<std::byte>(1u << (random() % 8));
                break;
            case 1:
                input[at] = static_cast<std::byte>(random());
                break;
            case 2:
                input[at] = random() % 2 == 0 ? std::byte{0} : std::byte{0xff};
                break;
            case 3:
                input.resize(at);
                break;
            case 4:
                input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), 1 + random() % 16,
                             static_cast<std::byte>(random()));
                break;
            default: {  // one seed's end behind another's beginning
                const Bytes& other = seeds[random() % seeds.size()];
                input.resize(at);
                if (at < other.size())
                    input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(at),
                                 other.end());
            }
        }
    }
    return input;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "--write-seeds") {
        int number = 0;
        for (const Bytes& seed : fuzz_seeds())
            std::ofstream(std::string(argv[2]) + "/seed" + std::to_string(number++),
                          std::ios::binary)
                .write(reinterpret_cast<const char*>(seed.data()),
                       static_cast<std::streamsize>(seed.size()));
        return 0;
    }
    const bool has_count = argc == 3 && std::string_view(argv[1]) == "--mutations";
    for (int i = 1; i < argc && !has_count; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        const std::string text((std::istreambuf_iterator<char>(file)), {});
        const auto bytes = std::as_bytes(std::span(text));
        run({bytes.begin(), bytes.end()});
    }
    if (argc > 1 && !has_count) return 0;
    const std::vector<Bytes> seeds = fuzz_seeds();
    for (const Bytes& seed : seeds) run(seed);
    const long usual =
        (has_count ? std::atol(argv[2]) : 40'000) / (verbatim::test::kSanitized ? 4 : 1);
    const long count = std::getenv("VERBATIM_LONG") != nullptr ? 100 * usual : usual;
    std::mt19937_64 random(20260101);
    for (long i = 0; i < count; ++i) run(mutated(seeds, random));
    std::printf("%zu seeds and %ld mutations of them\n", seeds.size(), count);
}
