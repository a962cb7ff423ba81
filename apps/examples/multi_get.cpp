// A table of another process, of which many keys are read by one prepared list, again and again:
// `example-multi_get serve` in one terminal, `example-multi_get ask` in another.
#include <cstdio>
#include <string_view>
#include <vector>

#include <verbatim/core/context.hpp>
#include <verbatim/core/prepared.hpp>

using namespace verbatim;

void serve(Context& context) {
    Connection connection = context.listen("127.0.0.1:7476").accept();
    auto* table = static_cast<std::uint64_t*>(connection.arena().allocate(8000, 64));
    for (std::uint64_t i = 0; i < 1000; ++i) table[i] = i * i;
    const Grant grant(connection, std::as_writable_bytes(std::span(table, 1000)),
                      Access::remote_read);
    const RemoteSpan<std::uint64_t> span(grant.extents()[0]);
    connection.send_message(1, span.bytes(), {}, Deadline::never());
    connection.receive_message(Deadline::never());  // it has read enough; the grant ends
}

void ask(Context& context) {
    Connection connection = context.connect("127.0.0.1:7476");
    const Message message = connection.receive_message(Deadline::never());
    const auto table = RemoteSpan<std::uint64_t>::parse(message.payload()).value();
    auto* here = static_cast<std::uint64_t*>(connection.arena().allocate(24, 64));
    std::vector<RemoteRead> keys;
    for (std::size_t i = 0; i < 3; ++i)
        keys.push_back({table[i * 100].extent(), reinterpret_cast<std::byte*>(here + i)});
    OneSided one_sided(connection);
    PreparedReads list(one_sided, keys);
    for (std::size_t first = 0; list.valid() && first < 3; ++first) {
        keys[0].from = table[first].extent();  // another key in the first place
        while (list.set(0, keys[0]) != Errc::ok || list.execute() == Errc::would_block)
            (void)connection.progress();
        one_sided.wait(list.last(), Deadline::never());
        std::printf("%zu %zu %zu\n", std::size_t{here[0]}, std::size_t{here[1]},
                    std::size_t{here[2]});
    }
    connection.send_message(2, {}, {}, Deadline::never());
}

int main(int argc, char** argv) {
    Context context;
    std::string_view(argc > 1 ? argv[1] : "") == "serve" ? serve(context) : ask(context);
}
