// Memory of another process, read and counted without its program: `example-remote serve` in one
// terminal, `example-remote ask` in another.
#include <cstdio>
#include <string_view>

#include <verbatim/core/context.hpp>
#include <verbatim/core/one_sided.hpp>

using namespace verbatim;

// Lends four words until the peer says that it is done.
void serve(Context& context) {
    Connection connection = context.listen("127.0.0.1:7475").accept();
    auto* words = static_cast<std::uint64_t*>(connection.arena().allocate(32, 64));
    for (std::uint64_t i = 0; i < 4; ++i) words[i] = 10 * i;
    Grant grant(connection, std::as_writable_bytes(std::span(words, 4)),
                Access::remote_read | Access::remote_write | Access::remote_atomic);
    const RemoteSpan<std::uint64_t> span(grant.extents()[0]);
    connection.send_message(1, span.bytes(), {}, Deadline::never());
    connection.receive_message(Deadline::never());
    grant.wait_end(Deadline::never());  // from here on the peer cannot change them
    std::printf("%llu %llu\n", static_cast<unsigned long long>(words[0]),
                static_cast<unsigned long long>(words[3]));
}

void ask(Context& context) {
    Connection connection = context.connect("127.0.0.1:7475");
    const Message message = connection.receive_message(Deadline::never());
    const auto remote = RemoteSpan<std::uint64_t>::parse(message.payload()).value();
    auto* words = static_cast<std::uint64_t*>(connection.arena().allocate(32, 64));
    OneSided one_sided(connection);
    one_sided.read(remote, std::span(words, 4), Deadline::never());
    words[0] = words[1] + words[2];
    one_sided.write(std::span<const std::uint64_t>(words, 1), remote[0], Deadline::never());
    Operation add;
    while (one_sided.try_fetch_add(remote[3], 5, &words[1], add) == Errc::would_block)
        (void)connection.progress();
    one_sided.wait(add, Deadline::never());
    connection.send_message(2, {}, {}, Deadline::never());
}

int main(int argc, char** argv) {
    Context context;
    std::string_view(argc > 1 ? argv[1] : "") == "serve" ? serve(context) : ask(context);
}
