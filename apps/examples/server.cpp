// A server on pollers, and a client that sends from its own thread: `example-server serve` in one
// terminal, `example-server ask` in another. The server ends when its first client has gone. The
// pollers of both are those of [[poller]] sections in ./verbatim.toml, else one.
#include <cstdio>
#include <future>
#include <string_view>

#include <verbatim/core/context.hpp>

using namespace verbatim;

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Config config = Config::found();
    if (config.pollers.empty()) config.pollers.emplace_back();
    Context context(config);
    std::promise<void> ended;
    const auto answered = [&](Message&) { ended.set_value(); };
    if (role == "serve") {
        Listener listener = context.listen("127.0.0.1:7473");
        listener.serve(context.pollers(), [&](Connection& client) {
            client.on(1, [](Connection& from, Message& question) {
                if (from.try_send(2, question.payload()) != Errc::ok) std::puts("no room");
            });
            client.on_end([&] { ended.set_value(); });
        });
        ended.get_future().wait();
        std::puts("a client was served");
    } else if (role == "ask") {
        std::promise<Sender> sender;
        context.connect("127.0.0.1:7473", *context.pollers().front(), [&](Connection& server) {
            server.on(2, answered);
            sender.set_value(server.sender());
        });
        if (sender.get_future().get().try_send(1, {}) == Errc::ok) ended.get_future().wait();
        std::puts("answered");
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-server: %s\n", error.what());
    return 1;
}
