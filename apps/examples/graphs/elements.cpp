// Elements of a range, each a graph of its own: the receiver uses the first ones while others come.
// `example-elements receive` in one terminal, `example-elements send` in another.
#include <cstdio>
#include <list>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/objects.hpp>

struct Reading {
    std::string station;
    std::vector<int> values;
};

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        std::list<Reading> readings;  // any range: its elements go, and not the list
        for (const char* station : {"north pier", "a lighthouse with a longer name", "harbour"})
            readings.push_back({station, std::vector<int>(100 * (readings.size() + 1), 1)});
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        const auto report = verbatim::send_each(connection, readings);
        return report.elements == readings.size() ? 0 : 1;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    for (const auto& reading : verbatim::receive_each<Reading>(connection))
        std::printf("%s: %d\n", reading->station.c_str(),
                    std::accumulate(reading->values.begin(), reading->values.end(), 0));
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-elements: %s\n", error.what()), 1;
}
