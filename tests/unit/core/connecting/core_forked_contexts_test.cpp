// Contexts of a parent in a forked child, with pollers and listeners: they refuse there, end
// without a word, and go on here.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "../telemetry/core_telemetry.hpp"
#include "core_fault.hpp"
#include "forked_exit.hpp"

namespace verbatim {
namespace {

using softnic::test::status_in_child;
using test::error_code_of;
using test::status_of_exit;

constexpr Errc kRefused = Errc::permission_denied;
Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

// A context with a poller and a listener that serves, and a connection to it, which lends memory.
struct Server {
    explicit Server(const Config& config) : context(with_poller(config)), client(config) {
        listener.emplace(context.listen("127.0.0.1:0"));
        listener->serve(context.pollers(), [](Connection& called) {
            called.on(1, [](Connection& caller, Message& message) {
                (void)caller.try_send(2, message.payload());
            });
        });
        connection.emplace(client.connect(test::local(listener->port())));
        memory = static_cast<std::byte*>(client.arena().allocate(4096, 64));
        grant.emplace(*connection, std::span(memory, 4096), Access::remote_write);
    }
    ~Server() { client.arena().deallocate(memory, 4096, 64); }
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    static Config with_poller(Config config) {
        config.pollers.push_back({});
        return config;
    }
    bool echoes() {
        connection->send_message(1, {}, {}, soon());
        return connection->receive_message(soon()).channel() == 2;
    }
    bool serves_another() {
        Connection other = client.connect(test::local(listener->port()));
        other.send_message(1, {}, {}, soon());
        return other.receive_message(soon()).channel() == 2;
    }

    Context context, client;
    std::optional<Listener> listener;
    std::optional<Connection> connection;
    std::byte* memory = nullptr;
    std::optional<Grant> grant;
};

// 0: a context of the child connects and transfers.
int use_own_context() {
    test::ConnectedPair own;
    own.sender->send_message(1, {}, {}, soon());
    return own.receiver->receive_message(soon()).channel() == 1 ? 0 : 7;
}

TEST(ForkedContexts, child_exits_with_its_parents_pollers_and_listeners) {
    test::SegmentDirectory segments;
    static std::optional<Server> server;
    server.emplace(segments.config());
    ASSERT_TRUE(server->echoes());
    EXPECT_EQ(status_of_exit(use_own_context), 0);
    EXPECT_TRUE(server->echoes());
    EXPECT_TRUE(server->serves_another());
    EXPECT_FALSE(server->grant->has_ended());
    server->grant->wait_end(soon());
    EXPECT_EQ(segments.read().size(), 2u) << "a context each";
    server.reset();
}

TEST(ForkedContexts, child_ends_its_parents_contexts_with_their_lanes) {
    auto server = std::make_unique<Server>(test::small_config());
    std::optional<Lane> more(server->context.make_lane());
    EXPECT_EQ(status_in_child([&] {
                  server->listener.reset();
                  server.reset();
                  more.reset();
                  return use_own_context();
              }),
              0);
    EXPECT_TRUE(server->echoes());
    EXPECT_TRUE(server->serves_another());
}

// The number of the first call that is not refused.
int first_call_that_goes_on(Server& server) {
    Context& context = server.context;
    const std::string address = test::local(server.listener->port());
    const auto goes_on = [](auto&& call) { return error_code_of(call) != kRefused; };
    if (goes_on([&] { (void)context.connect(address); })) return 1;
    if (goes_on([&] { (void)context.listen("127.0.0.1:0"); })) return 2;
    if (goes_on([&] { (void)context.make_lane(); })) return 3;
    if (goes_on([&] { (void)context.connect_over({.file = 0}); })) return 4;
    if (goes_on([&] { context.connect(address, *context.pollers()[0], [](Connection&) {}); }))
        return 5;
    if (goes_on([&] { (void)server.listener->accept(soon()); })) return 6;
    if (goes_on([&] { RegistrationCache cache(context); })) return 8;
    if (goes_on([&] { server.connection->move_to(context.lane()); })) return 9;
    if (goes_on([&] { server.listener->serve(context.pollers(), [](Connection&) {}); })) return 7;
    return 0;
}

TEST(ForkedContexts, child_is_refused_by_its_parents_contexts) {
    Server server(test::small_config());
    EXPECT_EQ(status_in_child([&] { return first_call_that_goes_on(server); }), 0);
    EXPECT_EQ(status_in_child([&] {
                  const Error error = test::error_of([&] { (void)server.client.make_lane(); });
                  return error.object() == "context" && test::says(error, "parent") &&
                                 test::says(error, "make a context in the child")
                             ? 0
                             : 1;
              }),
              0);
    EXPECT_TRUE(server.serves_another());
}

TEST(ForkedContexts, child_is_refused_by_its_parents_lanes) {
    Server server(test::small_config());
    EXPECT_EQ(status_in_child([&] {
                  Poller& poller = *server.context.pollers()[0];
                  Lane theirs = poller.lane(), own = server.client.lane();
                  for (Lane* lane : {&theirs, &own}) {
                      if (error_code_of([&] { lane->call([] {}); }) != kRefused) return 1;
                      if (error_code_of([&] { lane->submit([]() noexcept {}); }) != kRefused)
                          return 2;
                      if (lane->poll() != 0 || lane->wait() || lane->prepare_to_sleep()) return 3;
                  }
                  if (error_code_of([&] { poller.adopt(own); }) != kRefused) return 4;
                  if (error_code_of([&] { poller.release(own); }) != kRefused) return 5;
                  return 0;
              }),
              0);
    EXPECT_EQ(Lane(server.context.pollers()[0]->lane()).call([] { return 7; }), 7);
}

// Of debug builds: a lane is used by one thread at a time.
TEST(ForkedContexts, child_finds_no_thread_of_its_parent_inside_a_lane) {
    test::ConnectedPair pair;
    std::atomic<bool> waits{false};
    pair.receiver->on(1, [&](Message&) { waits = true; });
    std::thread inside([&] {
        Lane lane = pair.receiver_context.lane();
        while (!waits) (void)lane.wait(soon());
        EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 2);
    });
    pair.sender->send_message(1, {}, {}, soon());
    while (!waits) std::this_thread::yield();
    EXPECT_EQ(status_in_child([&] {
                  if (pair.receiver_context.lane().poll() != 0) return 1;
                  if (pair.receiver_context.lane().wait(soon())) return 2;
                  if (pair.receiver->progress() != kRefused) return 3;
                  return 0;
              }),
              0);
    pair.sender->send_message(2, {}, {}, soon());
    inside.join();
}

}  // namespace
}  // namespace verbatim
