// Two contexts of one process, connected: both ends in one thread or two. The environment may say
// by which port (VERBATIM_TEST_PORT), on which data path of an RDMA device
// (VERBATIM_TEST_DATA_PATH), with how long a send queue (VERBATIM_TEST_SEND_BLOCKS), and whether
// foreign memory is watched (VERBATIM_TEST_WATCH=0: it is not).
#pragma once

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>

#include <verbatim/core/connection.hpp>
#include <verbatim/core/context.hpp>

namespace verbatim::test {

inline Config small_config() {
    Config config;
    config.device.kind = "softnic";
    config.device.strict_doorbells = true;
    if (const char* const port = std::getenv("VERBATIM_TEST_PORT")) config.softnic.port = port;
    if (const char* const path = std::getenv("VERBATIM_TEST_DATA_PATH")) {
        config.device.kind = "rdma";
        config.device.data_path = path;
    }
    if (const char* const blocks = std::getenv("VERBATIM_TEST_SEND_BLOCKS"))
        config.ring.send_blocks = static_cast<std::uint32_t>(std::strtoul(blocks, nullptr, 10));
    if (const char* const watch = std::getenv("VERBATIM_TEST_WATCH"))
        config.foreign.watch = *watch != '0';
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena}) {
        arena->segment_bytes = std::size_t{2} << 20;
        arena->max_bytes = std::size_t{256} << 20;
        arena->pages = PageChoice::base_4k;
    }
    config.connect.timeout = std::chrono::seconds(10);
    config.objects.timeout = std::chrono::seconds(10);
    return config;
}

// The code of the Error that `call` throws; ok: none.
template <class Call>
Errc error_code_of(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.code();
    }
    return Errc::ok;
}

struct ConnectedPair {
    explicit ConnectedPair(const Config& sending = small_config(),
                           const Config& receiving = small_config())
        : sender_context(sending), receiver_context(receiving) {
        Listener listener = receiver_context.listen("127.0.0.1:0");
        std::thread accepting(
            [&] { receiver.emplace(listener.accept(Deadline::after(std::chrono::seconds(10)))); });
        sender.emplace(sender_context.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }

    Context sender_context, receiver_context;
    std::optional<Connection> sender, receiver;
};

}  // namespace verbatim::test
