// Parts of a received graph: one that keeps all of it, and one that needs the rest no more.
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <verbatim/objects.hpp>

struct Sensor {
    std::string name;
    std::vector<int> samples;
};
struct Station {
    std::string place;
    std::vector<Sensor> sensors;
};

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        const Station station{"a pier with a long name", {{"wind", {3, 4, 5}}, {"tide", {1, 2}}}};
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, station);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    auto station = verbatim::receive<Station>(connection);
    const verbatim::Received<const std::string> place = station.part(&station->place);  // keeps all
    auto tide = station.promote(&station->sensors[1]);  // a copy in memory of its own
    tide.mutable_view().samples[0] = 7;                 // changes in place
    std::printf("of the station: %d\n", station->sensors[1].samples[0]);
    { const auto ended = std::move(station); }
    std::printf("%s, %s: %d\n", place->c_str(), tide->name.c_str(), tide->samples[0]);
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-parts: %s\n", error.what()), 1;
}
