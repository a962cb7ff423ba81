// Sends an object of a class that only a plugin knows. `example-plugins receive PLUGIN` in one
// terminal, `example-plugins send PLUGIN` in another; without PLUGIN the receiver hears what it
// lacks.
#include <dlfcn.h>

#include <cstdio>
#include <memory>
#include <string_view>

#include "instrument.hpp"

int main(int argc, char** argv) try {
    const std::string_view role = argc > 1 ? argv[1] : "";
    void* const plugin = argc > 2 ? dlopen(argv[2], RTLD_NOW) : nullptr;
    if (argc > 2 && plugin == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    verbatim::Context context;
    if (role == "send") {
        const auto make = reinterpret_cast<Instrument* (*)()>(dlsym(plugin, "make_instrument"));
        const std::unique_ptr<Instrument> instrument(make());
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, *instrument, {.until = verbatim::Until::delivered});
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto instrument = verbatim::receive<Instrument>(connection);
    std::printf("%s\n", instrument->play().c_str());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-plugins: %s\n", error.what()), 1;
}
