// A coroutine on a poller answers each graph with another. `example-coroutine serve` in one
// terminal, `example-coroutine ask` in another; the server ends when its first client has gone.
#include <coroutine>
#include <cstdio>
#include <future>
#include <vector>

#include <verbatim/objects.hpp>

using namespace verbatim;
using Numbers = std::vector<int>;

struct Detached {  // it runs by itself
    struct promise_type {
        Detached get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}  // the connection's end
    };
};
Detached serve(Connection& client) {
    for (Numbers seen;;) {
        const Received<Numbers> numbers = co_await receive_async<Numbers>(client);
        seen.insert(seen.end(), numbers->begin(), numbers->end());
        co_await send_async(client, seen);
    }
}

int main(int argc, char** argv) {
    Config config;
    config.pollers.emplace_back();
    Context context(config);
    if (argc > 1 && argv[1][0] == 's') {
        std::promise<void> ended;
        Listener listener = context.listen("127.0.0.1:7471");
        listener.serve(context.pollers(), [&](Connection& client) {
            client.on_end([&] { ended.set_value(); });
            serve(client);
        });
        return ended.get_future().wait(), 0;
    }
    Connection server = context.connect("127.0.0.1:7471");
    for (const Numbers& numbers : {Numbers{1, 2}, Numbers{3}}) {
        send(server, numbers);
        const Received<Numbers> seen = receive<Numbers>(server);
        std::printf("%zu numbers, the last one %d\n", seen->size(), seen->back());
    }
}
