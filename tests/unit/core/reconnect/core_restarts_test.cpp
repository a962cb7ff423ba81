// A server process that is killed in the middle of a stream of messages, and started again at the
// same port.
#include <random>
#include <thread>

#include "core_fault.hpp"
#include "numbered_messages.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;

// Tells the test of each message before its handler returns, so before its credit goes.
int serve(Wire& wire, std::uint16_t port) {
    Context context(test::small_config());
    Listener listener = context.listen(test::local(port));
    if (!wire.put(listener.port())) return 1;
    Connection connection = listener.accept(Deadline::after(30s));
    bool is_heard = true;
    connection.on(1,
                  [&](const Message& message) { is_heard = wire.put(test::number_in(message)); });
    while (is_heard && connection.progress() == Errc::ok) std::this_thread::yield();
    return 0;
}

TEST(Restarts, of_a_server_lose_nothing_silently_and_hand_nothing_out_twice) {
    test::NumberedMessages record;
    std::minstd_rand random(5);
    std::uint16_t port = 0;
    Context context(test::small_config());
    std::optional<Reconnecting> client;
    for (std::size_t restarts = 0; restarts != 20; ++restarts) {
        Child server([&](Wire& wire) { return serve(wire, port); });
        ASSERT_TRUE(server.wire().get(port));
        if (!client) {
            client.emplace(context.lane(), test::local(port),
                           ReconnectOptions{.first_pause = 1ms, .longest_pause = 20ms});
            client->on_lost([&](const Lost& lost) { record.lost.push_back(lost); });
        }
        client->wait(Deadline::after(30s));
        const std::uint64_t until = client->settled() + random() % 300;
        const Deadline deadline = Deadline::after(30s);
        while (client->settled() < until && !deadline.passed()) {
            const std::uint64_t number = client->sent();
            (void)client->try_send(1, test::bytes_of(number));
            (void)client->poll();
            // Its pipe is short: what it said is taken meanwhile.
            for (std::uint64_t taken = 0; server.wire().readable(0) && server.wire().get(taken);)
                ++record.taken[taken];
        }
        server.kill(SIGKILL);
        for (std::uint64_t taken = 0; server.wire().get(taken);) ++record.taken[taken];
        EXPECT_EQ(server.reap(), -SIGKILL);
        while (record.lost.size() <= restarts && !deadline.passed()) (void)client->poll();
        ASSERT_EQ(record.lost.size(), restarts + 1);
    }
    record.expect_each_once_or_reported(client->sent());
    EXPECT_GT(record.taken.size(), 100U);
}

}  // namespace
}  // namespace verbatim
