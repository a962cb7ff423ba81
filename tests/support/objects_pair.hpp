// Two contexts of one process, connected: both ends of a transfer in one thread or two. The
// environment may say by which port (VERBATIM_TEST_PORT), on which data path of an RDMA device
// (VERBATIM_TEST_DATA_PATH), with how long a send queue (VERBATIM_TEST_SEND_BLOCKS), and whether
// foreign memory is watched (VERBATIM_TEST_WATCH=0: it is not).
#pragma once

#include <cstdlib>
#include <optional>
#include <thread>

#include <verbatim/objects.hpp>

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

struct Pair {
    explicit Pair(const Config& sending = small_config(), const Config& receiving = small_config())
        : sender_context(sending), receiver_context(receiving) {
        Listener listener = receiver_context.listen("127.0.0.1:0");
        std::thread accepting(
            [&] { receiver.emplace(listener.accept(Deadline::after(std::chrono::seconds(10)))); });
        sender.emplace(sender_context.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }

    // Drives both ends from this thread until both are done. Either end's Error leaves the other to
    // the caller.
    template <class T>
    Received<T> transfer(const T& root, SendOptions options = {}) {
        SendOperation<T> sending(*sender, root, options);
        ReceiveOperation<T> receiving(*receiver);
        bool sent = false, received = false;
        for (const Deadline deadline = Deadline::after(std::chrono::seconds(20));
             !sent || !received;) {
            sent = sent || sending.step();
            received = received || receiving.step();
            if (deadline.passed()) throw Error(Errc::timeout, "test transfer", "it does not end");
        }
        return receiving.take();
    }

    Context sender_context, receiver_context;
    std::optional<Connection> sender, receiver;
};

}  // namespace verbatim::test
