// The other side of example-messages, made wrong: `wrong-peer serve` answers with fewer bytes than
// an address has, `wrong-peer ask` fills the memory that it may write to the last byte.
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <verbatim/core/context.hpp>

namespace {

using verbatim::Connection;
using verbatim::Deadline;
using verbatim::Errc;

constexpr const char* kAddress = "127.0.0.1:7472";
constexpr std::uint8_t kQuestion = 1, kMemory = 2, kDone = 3;

void serve(verbatim::Context& context) {
    Connection connection = context.listen(kAddress).accept();
    connection.receive_message(Deadline::never());
    const std::array<std::byte, 3> few{};
    connection.send_message(kMemory, few, {}, Deadline::never());
    for (unsigned round = 0; connection.progress() == Errc::ok; ++round)
        connection.pause(round, Deadline::never());
}

void ask(verbatim::Context& context) {
    Connection connection = context.connect(kAddress);
    connection.send_message(kQuestion, {}, {}, Deadline::never());
    verbatim::RemoteExtent extent;
    std::memcpy(&extent, connection.receive_message(Deadline::never()).payload().data(),
                sizeof extent);
    auto* source = static_cast<std::byte*>(connection.arena().allocate(extent.bytes, 64));
    std::memset(source, 'x', extent.bytes);
    std::size_t written = 0;
    while (connection.try_write(source, extent.bytes, extent.address, extent.remote_key, written) ==
           Errc::would_block) {
    }
    connection.send_message(kDone, {}, {}, Deadline::never());
}

}  // namespace

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && std::string_view(argv[1]) == "serve")
        serve(context);
    else
        ask(context);
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "wrong-peer: %s\n", error.what());
    return 1;
}
