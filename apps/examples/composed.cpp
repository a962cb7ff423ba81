// A message that is composed where it is sent from: one process makes it, the other verifies it.
#include <cstdio>
#include <string_view>

#include <verbatim/objects.hpp>

struct Stop {
    std::pmr::string name;
    Stop* next = nullptr;
};
struct Line {
    std::pmr::vector<Stop*> stops;
    std::pmr::map<std::pmr::string, int> minutes;
};
VERBATIM_COMPOSED(Line);  // both programs have it

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        auto line = verbatim::compose<Line>(connection);
        for (const char* name : {"Harbour", "Market", "a stop with a longer name"}) {
            line->stops.push_back(line.make<Stop>());  // its string uses the message's memory
            line->stops.back()->name = name;
            line->minutes[name] = static_cast<int>(line->stops.size()) * 4;
        }
        line->stops.back()->next = line->stops.front();  // a circle
        const auto report = verbatim::send(connection, line);
        return report.composed ? 0 : 1;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto line = verbatim::receive<Line>(connection);
    const Stop& last = *line->stops.back();
    std::printf("%zu stops, the last %d minutes away, then %s\n", line->stops.size(),
                line->minutes.at(last.name), last.next->name.c_str());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-composed: %s\n", error.what()), 1;
}
