// Marks what types alone do not say: an array's count, a member that stays here, what is valid.
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string_view>

#include <verbatim/objects.hpp>

struct Histogram {
    char unit[8] = {};  // a C array: so the class needs its description
    std::uint32_t bins = 0;
    double* counts = nullptr;
    mutable std::mutex mutex;
};
VERBATIM_DESCRIBE(Histogram, unit, bins, counts, mutex)
VERBATIM_COUNTED(Histogram, (counts, bins))  // `counts` leads to as many
VERBATIM_TRANSIENT(Histogram, mutex)         // the receiver makes its own

bool is_valid(const Histogram& histogram) { return histogram.bins <= 1000; }
VERBATIM_VALIDATE(Histogram, is_valid)  // at the receiver, before it is handed out

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && std::string_view(argv[1]) == "send") {
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        double counts[2000] = {3, 4, 5};
        verbatim::send(connection, Histogram{"ms", 2000, counts, {}});  // refused there
        verbatim::send(connection, Histogram{"ms", 3, counts, {}});
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    for (int i = 0; i < 2; ++i) try {
            const auto histogram = verbatim::receive<Histogram>(connection);
            std::printf("%u bins, %g %s\n", histogram->bins, histogram->counts[2], histogram->unit);
        } catch (const verbatim::Error& error) {
            std::puts(error.code() == verbatim::Errc::corrupt_message ? "refused" : error.what());
        }
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-markings: %s\n", error.what()), 1;
}
