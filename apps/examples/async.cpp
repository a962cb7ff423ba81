// Graphs that nobody waits for: a coroutine sends them, callbacks take them, both loops only poll.
// `example-async receive` in one terminal, `example-async send` in another.
#include <coroutine>
#include <cstdio>
#include <string>

#include <verbatim/objects.hpp>

using namespace verbatim;

struct Started {  // a coroutine that runs by itself
    struct promise_type {
        Started get_return_object() { return {}; }
        std::suspend_never initial_suspend() { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::terminate(); }
    };
};

Started send_texts(Connection& connection, int& left) {
    for (const std::string text(100, 'x'); left != 0; --left)
        co_await send_async(connection, text, {.until = Until::delivered});
}

int main(int argc, char** argv) {
    const bool sends = argc > 1 && std::string(argv[1]) == "send";
    Context context;
    Connection connection =
        sends ? context.connect("127.0.0.1:7488") : context.listen("127.0.0.1:7488").accept();
    int left = 3;
    const auto take = [&](Receiving<std::string>& graph) {
        std::printf("%zu bytes, %d graphs left\n", graph.take()->size(), --left);
    };
    const auto receive = [&] { return receive_async<std::string>(connection, {}, take); };
    const auto first = receive(), second = receive(), third = receive();
    if (sends) send_texts(connection, left);
    while (left != 0) context.lane().wait();
}
