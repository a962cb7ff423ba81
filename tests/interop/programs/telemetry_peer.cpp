// One side of two processes that count: `telemetry_peer serve`, which prints its port, or
// `telemetry_peer ask PORT MESSAGES BYTES`, which sends so many and keeps its connection. Both end
// with their standard input. The configuration is that of $VERBATIM_CONFIG.
#include <poll.h>

#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/core/context.hpp>

using namespace verbatim;

namespace {

// Sleeps on the lane and on standard input.
void wait_for_end(Lane lane) {
    for (;;) {
        while (!lane.prepare_to_sleep()) (void)lane.poll();
        pollfd files[] = {{lane.descriptor(), POLLIN, 0}, {0, POLLIN, 0}};
        (void)poll(files, 2, -1);
        if (files[1].revents != 0) return;
        (void)lane.poll();
    }
}

}  // namespace

int main(int argc, char** argv) try {
    Context context;
    if (argc == 2 && std::string_view(argv[1]) == "serve") {
        Listener listener = context.listen("127.0.0.1:0");
        std::printf("%d\n", static_cast<int>(listener.port()));
        (void)std::fflush(stdout);
        Connection in = listener.accept();
        in.on(1, [](Message&) {});
        wait_for_end(context.lane());
    } else if (argc == 5) {
        Connection out = context.connect(std::string("127.0.0.1:") + argv[2]);
        const std::vector<std::byte> bytes(std::strtoul(argv[4], nullptr, 10));
        for (unsigned long left = std::strtoul(argv[3], nullptr, 10); left != 0; --left)
            while (out.try_send(1, bytes) == Errc::would_block) (void)out.progress();
        wait_for_end(context.lane());
    }
} catch (const Error& error) {
    std::fprintf(stderr, "telemetry_peer: %s\n", error.what());
    return 1;
}
