// Messages and one-sided writes over a connection: `example-messages serve` in one terminal,
// `example-messages ask` in another. The settings come from ./verbatim.toml, if there is one
// (configs/verbatim.toml shows them all).
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/core/context.hpp>

namespace {

constexpr const char* kAddress = "127.0.0.1:7472";
constexpr std::uint8_t kQuestion = 1, kMemory = 2, kDone = 3;

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

// Lends memory to the peer, answers with its address, and shows what was written there.
void serve(verbatim::Context& context) {
    using verbatim::Deadline;
    verbatim::Connection connection = context.listen(kAddress).accept();
    const verbatim::Message question = connection.receive_message(Deadline::never());
    std::printf("asked: %.*s\n", static_cast<int>(question.payload().size()),
                reinterpret_cast<const char*>(question.payload().data()));
    auto* page = static_cast<std::byte*>(connection.receive_arena().allocate(4096, 64));
    verbatim::Grant grant(connection, {page, 4096}, verbatim::Access::remote_write);
    connection.send_message(kMemory, std::as_bytes(grant.extents()), {}, Deadline::never());
    connection.receive_message(Deadline::never());  // kDone: written before it was sent
    grant.wait_end(Deadline::never());              // from here on the peer cannot change it
    const auto* text = reinterpret_cast<const char*>(page);  // ended by the peer, or not
    std::printf("written: %.*s\n", static_cast<int>(strnlen(text, 4096)), text);
}

// What a peer sends has the length and the contents that it likes: look before it is used.
verbatim::RemoteExtent take_extent(verbatim::Connection& connection) {
    const verbatim::Message answer = connection.receive_message(verbatim::Deadline::never());
    verbatim::RemoteExtent extent;
    if (answer.channel() != kMemory || answer.payload().size() != sizeof extent)
        throw verbatim::Error(verbatim::Errc::protocol_error, connection.peer_name(),
                              "it answered something else than where to write",
                              "let `example-messages serve` run there");
    std::memcpy(&extent, answer.payload().data(), sizeof extent);
    return extent;
}

void ask(verbatim::Context& context) {
    using verbatim::Deadline;
    verbatim::Connection connection = context.connect(kAddress);
    connection.send_message(kQuestion, bytes_of("where may I write?"), {}, Deadline::never());
    const verbatim::RemoteExtent extent = take_extent(connection);
    const std::string_view text = "straight into your memory";
    auto* source = static_cast<std::byte*>(connection.arena().allocate(text.size() + 1, 16));
    std::memcpy(source, text.data(), text.size() + 1);
    std::size_t written = 0;
    // The data path reports by status: would_block means "later", and nothing is lost.
    while (connection.try_write(source, text.size() + 1, extent.address, extent.remote_key,
                                written) == verbatim::Errc::would_block) {
    }
    connection.send_message(kDone, {}, {}, Deadline::never());
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "serve") {
        serve(context);
    } else if (role == "ask") {
        ask(context);
    } else {
        std::fputs("usage: example-messages serve|ask\n", stderr);
        return 2;
    }
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "example-messages: %s\n", error.what());
    return 1;
}
