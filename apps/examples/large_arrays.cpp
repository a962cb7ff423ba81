// Sends a large vector of the heap from where it lies: `example-large_arrays receive`, `... send`.
#include <cstdio>
#include <numeric>
#include <string_view>

#include <verbatim/objects.hpp>

struct Recording {
    std::string place;
    std::vector<float> samples;
};

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && std::string_view(argv[1]) == "send") {
        verbatim::RegistrationCache cache(context);
        Recording recording{"north pier", std::vector<float>(1'000'000)};
        std::iota(recording.samples.begin(), recording.samples.end(), 0.0f);
        verbatim::Connection connection = context.connect("127.0.0.1:7484");
        for (int i = 0; i < 3; ++i) {  // registered once
            recording.samples[0] = static_cast<float>(i);
            verbatim::send(connection, recording, {.foreign = &cache});
        }
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7484").accept();
    for (int i = 0; i < 3; ++i) {
        const auto recording = verbatim::receive<Recording>(connection);
        std::printf("%s: %.0f %.0f\n", recording->place.c_str(), recording->samples.front(),
                    recording->samples.back());
    }
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
