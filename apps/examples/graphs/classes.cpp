// Counts how the receiver found the classes of the objects that pointers to their base lead to.
#include <cstdio>
#include <memory>
#include <vector>

#include <verbatim/objects.hpp>

struct Animal {
    virtual ~Animal() = default;
    virtual const char* says() const = 0;
};
VERBATIM_DESCRIBE(Animal)
struct Cow : Animal {
    const char* says() const override { return "moo"; }
};
VERBATIM_DESCRIBE_DERIVED(Cow, (Animal))
struct Hen : Animal {
    const char* says() const override { return "cluck"; }
};
VERBATIM_DESCRIBE_DERIVED(Hen, (Animal))
using Farm = std::vector<std::unique_ptr<Animal>>;

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && argv[1][0] == 's') {  // "send"
        Farm farm;
        for (int i = 0; i < 6; ++i) farm.push_back(std::make_unique<Cow>());
        farm.push_back(std::make_unique<Hen>());
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, farm);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto farm = verbatim::receive<Farm>(connection);
    const auto& classes = farm.report().classes;
    std::printf("%s ... %s: as the one before %lu, other classes %lu\n", farm->front()->says(),
                farm->back()->says(), classes.hot, classes.warm + classes.cold);
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-classes: %s\n", error.what()), 1;
}
