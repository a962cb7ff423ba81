// Many, in-place and long messages: `example-stream receive`, then `example-stream send`.
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <verbatim/core/context.hpp>

using namespace verbatim;

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Context context;
    if (role == "send") {
        Connection out = context.connect("127.0.0.1:7474");
        for (int i = 1; i <= 1000; ++i)  // small ones share a write
            while (out.try_batch(1, std::as_bytes(std::span(&i, 1))) == Errc::would_block)
                (void)out.progress();
        Claim claim;  // room in the ring, to be written in place
        while (out.try_claim(2, 64, claim) == Errc::would_block) (void)out.progress();
        std::memcpy(claim.bytes().data(), "in place", 8);
        (void)claim.commit(8);
        const std::string text(std::size_t{4} << 20, 'x');  // longer than the ring: in fragments
        out.send_message(3, std::as_bytes(std::span(text)), {}, Deadline::never());
    } else if (role == "receive") {
        Connection in = context.listen("127.0.0.1:7474").accept();
        Message next = in.receive_message(Deadline::never());
        int count = 0;
        for (; next.channel() == 1; ++count) next = in.receive_message(Deadline::never());
        std::printf("%d small ones, one %.*s, ", count, static_cast<int>(next.payload().size()),
                    reinterpret_cast<const char*>(next.payload().data()));
        next.release();  // a held message keeps ring space, which the fragments need
        next = in.receive_message(Deadline::never());
        std::printf("and one of %zu bytes\n", next.payload().size());
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-stream: %s\n", error.what());
    return 1;
}
