// A graph that is under way has a handle: it may change once it is reusable, and is delivered then
// or later. `example-handles receive` in one terminal, `example-handles send` in another.
#include <cstdio>
#include <string_view>
#include <vector>

#include <verbatim/objects.hpp>

using Numbers = std::vector<int>;

int main(int argc, char** argv) try {
    verbatim::Context context;
    const auto work = [&] { (void)context.lane().poll(); };  // and whatever else is to be done
    if (argc == 2 && std::string_view(argv[1]) == "send") {
        Numbers numbers(100'000, 1);
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        auto ones = verbatim::send_async(connection, numbers);
        while (!ones.reusable()) work();
        numbers.assign(3, 2);
        auto twos = verbatim::send_async(connection, numbers);
        twos.wait();
        while (!ones.delivered()) work();
        std::printf("%zu bytes are with the receiver\n", ones.report().wire_bytes);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    auto first = verbatim::receive_async<Numbers>(connection);
    auto second = verbatim::receive_async<Numbers>(connection);
    while (!first.test()) work();
    second.wait();
    const auto ones = first.take(), twos = second.take();
    std::printf("%zu times %d, %zu times %d\n", ones->size(), ones->front(), twos->size(),
                twos->front());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-handles: %s\n", error.what()), 1;
}
