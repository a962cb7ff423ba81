// Counts of another process: `example-telemetry serve`, then `example-telemetry ask`.
#include <cstdio>
#include <span>
#include <string_view>

#include <verbatim/core/context.hpp>

using namespace verbatim;

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Context context;
    if (role == "serve") {
        Connection in = context.listen("127.0.0.1:7475").accept();
        in.on(1, [](Message&) {});
        while (in.state() == Errc::ok) (void)context.lane().wait();
        const telemetry::ConnectionCounts own = telemetry::counts_of(in);
        std::printf("received: %d messages\n", static_cast<int>(own.messages_received));
    } else if (role == "ask") {
        Connection out = context.connect("127.0.0.1:7475");
        for (int i = 0; i < 100; ++i)
            while (out.try_send(1, std::as_bytes(std::span(&i, 1))) != Errc::ok)
                (void)out.progress();
        for (std::uint64_t seen = 0; seen != 100;) {  // until the other lane has written it
            (void)context.lane().wait(Deadline::after(std::chrono::milliseconds(1)));
            for (const auto& path : telemetry::segments(telemetry::default_directory())) try {
                    for (const auto& one : telemetry::read_segment(path).connections)
                        if (one.messages_received == 100) seen = one.messages_received;
                } catch (const Error&) {  // that process has just ended
                }
        }
        std::printf("the other process says: 100 received\n");
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-telemetry: %s\n", error.what());
    return 1;
}
