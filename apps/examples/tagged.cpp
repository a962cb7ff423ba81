// Tagged messages and a byte stream: `example-tagged receive`, then `example-tagged send`.
#include <array>
#include <cstdio>
#include <string_view>

#include <verbatim/core/context.hpp>
#include <verbatim/core/stream.hpp>
#include <verbatim/core/tagged.hpp>

using namespace verbatim;

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Context context;
    const Deadline never = Deadline::never();
    constexpr std::size_t kLong = std::size_t{4} << 20;
    std::byte* const memory = static_cast<std::byte*>(context.arena().allocate(kLong));
    if (role == "send") {
        Connection to = context.connect("127.0.0.1:7475");
        Tagged(to).send(1, std::as_bytes(std::span("for later")), never);
        SendRequest request({memory, kLong});  // leaves from where it lies
        Tagged(to).send(2, request, never);
        Stream(to).write(std::as_bytes(std::span("bytes")), never);
    } else if (role == "receive") {
        Connection from = context.listen("127.0.0.1:7475").accept();
        std::array<std::byte, 64> room;
        TaggedReceive big(2, {memory, kLong}), small(1, room);
        for (TaggedReceive* one : {&big, &small}) {  // the second message first
            Tagged(from).receive(*one);
            Tagged(from).wait(*one, never);
            std::printf("%zu bytes, ", one->bytes());
        }
        std::printf("and %zu of a stream\n", Stream(from).read(room, never));
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-tagged: %s\n", error.what());
    return 1;
}
