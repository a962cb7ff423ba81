// A client that outlives its server: "serve" takes three lines and ends, "send N" sends N numbered
// lines to whatever server there is, and says again what may have been lost.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <verbatim/core/context.hpp>
#include <verbatim/core/reconnecting.hpp>

using namespace verbatim;

void serve(Context& context) {
    Connection connection = context.listen("127.0.0.1:7481").accept();
    for (int left = 3; left != 0; --left) {
        const Message message = connection.receive_message(Deadline::never());
        std::printf("%.*s\n", static_cast<int>(message.payload().size()),
                    reinterpret_cast<const char*>(message.payload().data()));
    }
}

void send(Context& context, std::uint64_t lines) {
    Reconnecting client(context.lane(), "127.0.0.1:7481");
    std::uint64_t next = 0;
    client.on_lost([&](const Lost& lost) { next -= lost.count; });  // the last ones, in order
    while (next < lines || client.settled() < client.sent()) {
        client.check();
        const std::string line = "line " + std::to_string(next);
        if (client.poll() != Errc::ok || next == lines) continue;
        if (client.try_send(1, std::as_bytes(std::span(line))) == Errc::ok) ++next;
    }
}

int main(int argc, char** argv) {
    Context context;
    argc == 3 ? send(context, std::strtoull(argv[2], nullptr, 10)) : serve(context);
}
