// Keeps a graph in files: as an image, which is verified when it is mapped, and placed, which is
// used as it lies.
#include <cstdio>
#include <map>
#include <string>

#include <verbatim/objects.hpp>

struct Station {
    std::string name;
    Station* next = nullptr;
};
using Line = std::map<std::string, Station>;

int main() try {
    Line line{{"a", {"Alder", nullptr}}, {"b", {"Birch Street, a long name", nullptr}}};
    line["a"].next = &line["b"];
    line["b"].next = &line["a"];
    verbatim::save("line.graph", line);  // whole, or not at all
    auto verified = verbatim::map<Line>("line.graph");
    std::printf("%s\n", verified->at("a").next->name.c_str());
    verified.mutable_view()["a"].next = nullptr;  // this process only

    verbatim::save_placed("line.placed", line);
    const auto placed = verbatim::map<const Line>("line.placed", {.trusted = true});
    std::printf("%s, relocated: %s\n", placed->at("b").next->name.c_str(),
                placed.report().relocated ? "yes" : "no");
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-saved: %s\n", error.what()), 1;
}
