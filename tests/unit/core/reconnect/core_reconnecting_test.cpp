// A client that dials again, and a listener in another thread that learns its generations.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <list>
#include <random>
#include <thread>

#include "connection/calling.hpp"
#include "connection/connection_impl.hpp"
#include "core_fault.hpp"
#include "numbered_messages.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::number_in;
using test::NumberedMessages;
using test::small_config;

Deadline soon() { return Deadline::after(30s); }
// Messages of the last connection: enough that credits come back.
constexpr std::uint64_t kAtLast = test::kSanitized ? 3000 : 10'000;
constexpr ReconnectOptions kQuick{.first_pause = 1ms, .longest_pause = 20ms};

// A network that fails: the side channel ends in both directions, and nobody takes leave.
void cut(Connection& connection) {
    shutdown(LayerAccess::impl_of(connection).channel.socket().get(), SHUT_RDWR);
}

// Accepts in a thread, on one lane, and keeps every connection: only Verbatim ends them.
class Server {
  public:
    // `setup`: of each connection, in that thread.
    Server(const Config& config, std::function<void(Connection&)> setup)
        : context_(config), listener_(context_.listen("127.0.0.1:0")), setup_(std::move(setup)) {
        thread_ = std::thread([this] { run(); });
    }
    ~Server() { stop(); }
    void stop() {
        stop_ = true;
        if (thread_.joinable()) thread_.join();
    }
    std::string address() const { return test::local(listener_.port()); }
    // Once it has stopped.
    std::list<Connection>& connections() { return connections_; }

  private:
    void run() {
        while (!stop_) try {
                connections_.push_back(listener_.accept(Deadline::after(20ms)));
                setup_(connections_.back());
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), Errc::timeout) << error.what();
            }
    }
    Context context_;
    Listener listener_;
    const std::function<void(Connection&)> setup_;
    std::list<Connection> connections_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

template <class Done>
bool poll_until(Reconnecting& client, Done done) {
    for (const Deadline deadline = soon(); !done();) {
        (void)client.poll();
        if (deadline.passed()) return false;
        std::this_thread::yield();
    }
    return true;
}

void expect_nothing_left(Connection& ended) {
    Message message;
    EXPECT_EQ(ended.try_receive(message), Errc::peer_lost) << "unread messages are dropped";
}

const std::size_t kCuts = std::getenv("VERBATIM_LONG") == nullptr ? 60 : 200;

void expect_random_cuts_to_lose_nothing_silently(const Config& config) {
    NumberedMessages record;
    std::uint64_t newest = 0;
    std::atomic<std::uint64_t> handed = 0;  // the last number
    Server server(config, [&](Connection& connection) {
        const auto who = client_of(connection);
        ASSERT_TRUE(who);
        // Of every third generation nothing is taken: it stays unread, until it is dropped.
        if (who->generation % 3 == 0) return connection.on_end(expect_nothing_left);
        connection.on(1, [&, generation = who->generation](const Message& message) {
            ++record.taken[number_in(message)];
            EXPECT_GE(generation, newest) << "an older generation was handed out late";
            newest = std::max(newest, generation);
            handed = number_in(message);
        });
    });
    Context context(config);
    Reconnecting client(context.lane(), server.address(), kQuick);
    client.on_lost([&](const Lost& lost) { record.lost.push_back(lost); });
    std::minstd_rand random(20261124);
    const auto send = [&] {
        const std::uint64_t number = client.sent();
        (void)client.try_send(1, bytes_of(number));
    };
    for (std::size_t cuts = 1; cuts <= kCuts; ++cuts) {
        client.wait(soon());
        for (auto left = random() % 40; left != 0; --left) {
            send();
            if (random() % 4 == 0) (void)client.poll();
        }
        if (random() % 2 == 0)  // else some are still on their way
            for (int polls = 0; polls != 200; ++polls) (void)client.poll();
        if (Connection* const now = client.connection()) cut(*now);
        for (auto left = random() % 3; left != 0; --left) send();
        ASSERT_TRUE(poll_until(client, [&] { return record.lost.size() >= cuts; }));
    }
    do {
        if (Connection* const now = client.connection()) cut(*now);
        const std::size_t before = record.lost.size();
        if (client.connection() != nullptr) {
            ASSERT_TRUE(poll_until(client, [&] { return record.lost.size() > before; }));
        }
        client.wait(soon());
    } while (client.client().generation % 3 == 0);
    const std::uint64_t before = client.sent();
    ASSERT_TRUE(poll_until(client, [&] {
        if (client.sent() < before + kAtLast) send();
        return handed == before + kAtLast - 1;
    })) << "the last connection carries everything";
    EXPECT_TRUE(poll_until(client, [&] { return client.settled() > before; }))
        << "credits say so, now and then";
    const std::uint64_t sent = client.sent();
    server.stop();
    record.expect_each_once_or_reported(sent);
    EXPECT_GE(record.lost.size(), kCuts);
}

TEST(Reconnecting, loses_nothing_silently_and_hands_nothing_out_twice_over_many_cuts) {
    expect_random_cuts_to_lose_nothing_silently(small_config());
}

TEST(Reconnecting, does_so_with_proofs_of_a_key) {
    const int key = memfd_create("key", MFD_CLOEXEC);
    ASSERT_EQ(write(key, std::string(62, 'c').append("12").data(), 64), 64);
    ASSERT_EQ(fchmod(key, 0600), 0);
    Config config = small_config();
    config.connect.key_file = "/proc/self/fd/" + std::to_string(key);
    expect_random_cuts_to_lose_nothing_silently(config);
    close(key);
}

TEST(Reconnecting, sets_its_handlers_on_each_connection) {
    Server server(small_config(), [](Connection& connection) {
        const std::uint64_t generation = client_of(connection)->generation;
        EXPECT_EQ(connection.try_send(3, bytes_of(generation)), Errc::ok);
    });
    Context context(small_config());
    Reconnecting client(context.lane(), server.address(), kQuick);
    std::vector<std::uint64_t> heard, connected;
    client.on(3, [&](const Message& message) { heard.push_back(number_in(message)); });
    client.on_connected([&](Connection&) { connected.push_back(client.client().generation); });
    for (std::size_t n = 1; n != 4; ++n) {
        ASSERT_TRUE(poll_until(client, [&] { return heard.size() == n; }));
        cut(*client.connection());
    }
    EXPECT_EQ(heard, connected);
}

TEST(Reconnecting, refuses_a_late_attempt_of_an_older_generation) {
    Server server(small_config(), [](Connection&) {});
    Context context(small_config());
    const auto shared =
        std::static_pointer_cast<Context::Impl>(context.lane().impl()->resources().keeps);
    const auto dial = [&](std::uint64_t generation) {
        ClientIdentity who;
        who.id.fill(std::byte{7});
        who.generation = generation;
        Calling calling(shared, make_room(context.lane().impl(), shared->config),
                        parse_address(server.address()), who);
        for (const Deadline deadline = soon(); !calling.is_over() && !deadline.passed();) {
            calling.go_on();
            std::this_thread::yield();
        }
        return Connection(std::make_unique<Connection::Impl>(calling.take()));
    };
    const Connection newest = dial(5);
    const Error error = test::error_of([&] { (void)dial(4); });
    EXPECT_EQ(error.code(), Errc::protocol_error);
    EXPECT_TRUE(test::says(error, "generation 5 of that client is known"));
    EXPECT_EQ(newest.state(), Errc::ok) << "it lives on";
    const Connection next = dial(6);
    server.stop();
    ASSERT_EQ(server.connections().size(), 2U);
    EXPECT_EQ(server.connections().front().state(), Errc::peer_lost) << "ended by its successor";
    EXPECT_EQ(server.connections().back().state(), Errc::ok);
    EXPECT_EQ(client_of(server.connections().back())->generation, 6U);
}

TEST(Reconnecting, reports_exactly_after_a_regular_close) {
    std::atomic<int> taken = 0;
    Context context(small_config());
    Context serving(small_config());
    Listener listener = serving.listen("127.0.0.1:0");
    ReconnectOptions options = kQuick;
    options.after_close = false;
    Reconnecting client(context.lane(), test::local(listener.port()), options);
    std::optional<Lost> lost;
    client.on_lost([&](const Lost& told) { lost = told; });
    std::thread server([&] {
        Connection connection = listener.accept(soon());
        for (; taken != 3; ++taken) (void)connection.receive_message(soon());
    });
    client.wait(soon());
    for (std::uint64_t number = 0; number != 3; ++number)
        EXPECT_EQ(client.try_send(1, bytes_of(number)), Errc::ok);
    EXPECT_TRUE(poll_until(client, [&] { return lost.has_value(); }));
    server.join();
    EXPECT_EQ(lost->first, 3U);
    EXPECT_EQ(lost->count, 0U) << "the bye says that all were taken";
    EXPECT_EQ(client.poll(), Errc::peer_lost);
    EXPECT_TRUE(test::says(test::error_of([&] { client.check(); }), "the peer closed it"));
}

TEST(Reconnecting, gives_up_after_the_time_that_the_program_has_set) {
    Context context(small_config());
    std::string address;
    {
        const Listener gone = context.listen("127.0.0.1:0");
        address = test::local(gone.port());
    }
    ReconnectOptions options = kQuick;
    Reconnecting patient(context.lane(), address, options);
    EXPECT_EQ(test::error_code_of([&] { patient.wait(Deadline::after(50ms)); }), Errc::timeout);
    EXPECT_EQ(patient.poll(), Errc::would_block) << "it goes on dialling";
    EXPECT_EQ(patient.try_send(1, {}), Errc::would_block);
    EXPECT_EQ(patient.sent(), 0U);
    options.give_up_after = 30ms;
    Reconnecting client(context.lane(), address, options);
    const Error error = test::error_of([&] { client.wait(soon()); });
    EXPECT_TRUE(test::says(error, "nobody listens there"));
    EXPECT_EQ(client.poll(), Errc::timeout);
    options.first_pause = 0ms;
    EXPECT_EQ(test::error_code_of([&] { Reconnecting(context.lane(), address, options); }),
              Errc::invalid_argument);
}

}  // namespace
}  // namespace verbatim
