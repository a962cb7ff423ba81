// A connection that the connection manager of an RDMA device makes: "rdma://host:port" in place of
// "host:port". Without such a device: example-managed serve|ask with
// LD_PRELOAD=libverbatim_uverbs.so
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include <verbatim/core/context.hpp>

using namespace verbatim;

constexpr std::string_view kAddress = "rdma://127.0.0.1:7481";

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    Config config = Config::found();
    config.device.kind = "rdma";
    Context context(config);
    if (role == "serve") {
        Connection connection = context.listen(kAddress).accept();
        const Message message = connection.receive_message(Deadline::never());
        const auto text = message.payload();
        std::printf("%.*s\n", static_cast<int>(text.size()),
                    reinterpret_cast<const char*>(text.data()));
        connection.send_message(2, {}, {}, Deadline::never());
    } else {
        Connection connection = context.connect(kAddress);
        const std::string text = "by the connection manager";
        connection.send_message(1, std::as_bytes(std::span(text)), {}, Deadline::never());
        (void)connection.receive_message(Deadline::never());
    }
} catch (const Error& error) {
    std::fprintf(stderr, "example-managed: %s\n", error.what());
    return 1;
}
