// Connections in a loop of one's own: `example-epoll serve` in one terminal, `example-epoll ask` in
// another. The loop waits for a lane's descriptor.
#include <poll.h>

#include <cstdio>
#include <string_view>

#include <verbatim/core/context.hpp>

using namespace verbatim;

// The program's own loop: other descriptors of its would stand beside the lane's.
void loop(Lane lane, const bool& done) {
    while (!done) {
        pollfd entry{lane.descriptor(), POLLIN, 0};
        if (lane.prepare_to_sleep()) ::poll(&entry, 1, -1);
        lane.poll();  // calls handlers
    }
}

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Context context;
    bool done = false;
    Connection peer = role == "serve" ? context.listen("127.0.0.1:7474").accept()
                                      : context.connect("127.0.0.1:7474");
    peer.on(1, [&](Connection& from, Message& message) {
        std::printf("%.*s\n", static_cast<int>(message.payload().size()),
                    reinterpret_cast<const char*>(message.payload().data()));
        done = role == "ask" || from.try_send(1, message.payload()) == Errc::ok;
    });
    const std::string_view text = "hello from a loop";
    if (role == "ask") peer.send_message(1, std::as_bytes(std::span(text)), {}, Deadline::never());
    loop(context.lane(), done);
} catch (const Error& error) {
    std::fprintf(stderr, "example-epoll: %s\n", error.what());
    return 1;
}
