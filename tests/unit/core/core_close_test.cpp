// The close of a connection: everything accepted arrives first. In a handler, and on a lane that a
// poller drives, nobody waits for that.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>

#include "core_messages.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

// Fills the peer's ring, so that a close has to wait for credits. The batches accepted by then are
// what must arrive.
int fill(Connection& connection) {
    const std::string text(100, 'f');
    int accepted = 0;
    while (connection.try_batch(1, bytes_of(text)) == Errc::ok) ++accepted;
    return accepted;
}

int receive_all(Connection& connection) {
    int received = 0;
    try {
        while (true) {
            (void)connection.receive_message(soon());
            ++received;
        }
    } catch (const Error&) {
    }
    return received;
}

// A context with a poller, and peers that it connects with there.
class OnPoller {
  public:
    // The peer's end.
    template <class SetUp>
    Connection connect(SetUp set_up) {
        std::optional<Connection> peer;
        std::thread accepting([&] { peer.emplace(listener_.accept(soon())); });
        context_.connect("127.0.0.1:" + std::to_string(listener_.port()), context_.poller("p"),
                         set_up);
        accepting.join();
        return std::move(*peer);
    }

  private:
    static Config with_poller() {
        Config config = small_ring();
        config.pollers.push_back({.name = "p"});
        return config;
    }
    Context context_{with_poller()}, peers_{small_ring()};
    Listener listener_ = peers_.listen("127.0.0.1:0");
};

TEST(Close, of_a_program_waits_until_everything_has_arrived) {
    ConnectedPair pair(small_ring(), small_ring());
    const int accepted = fill(*pair.sender);
    std::thread receiving([&] {
        EXPECT_EQ(receive_all(*pair.receiver), accepted);
        EXPECT_TRUE(pair.receiver->peer_closed());
    });
    pair.sender.reset();
    receiving.join();
}

TEST(Close, in_a_handler_does_not_wait_and_loses_nothing) {
    ConnectedPair pair(small_ring(), small_ring());
    int accepted = 0;
    Clock::duration took = 0s;
    pair.sender->on(2, [&](Message&) {
        accepted = fill(*pair.sender);
        const auto began = Clock::now();
        pair.sender.reset();
        took = Clock::now() - began;
    });
    ASSERT_EQ(pair.receiver->try_send(2, {}), Errc::ok);
    Lane lane = pair.sender_context.lane();
    const Deadline deadline = soon();
    while (pair.sender && !deadline.passed()) (void)lane.poll();
    EXPECT_LT(took, small_ring().connect.timeout / 2) << "the handler waited for the peer";
    std::atomic<bool> over = false;
    std::thread receiving([&] {
        EXPECT_EQ(receive_all(*pair.receiver), accepted);
        EXPECT_TRUE(pair.receiver->peer_closed());
        over = true;
    });
    while (!over) (void)lane.poll();
    receiving.join();
    EXPECT_EQ(lane.connections(), 0u);
}

TEST(Close, that_a_handler_began_is_finished_with_the_lane) {
    auto other = std::make_unique<Context>(small_ring());
    Listener listener = other->listen("127.0.0.1:0");
    std::optional<Connection> accepted;
    std::thread accepting([&] { accepted.emplace(listener.accept(soon())); });
    auto context = std::make_unique<Context>(small_ring());
    std::optional<Connection> connection;
    connection.emplace(context->connect("127.0.0.1:" + std::to_string(listener.port())));
    accepting.join();
    int sent = 0;
    Sender sender = connection->sender();  // knows the lane, too
    connection->on(2, [&](Message&) {
        sent = fill(*connection);
        connection.reset();
    });
    ASSERT_EQ(accepted->try_send(2, {}), Errc::ok);
    const Deadline deadline = soon();
    while (connection && !deadline.passed()) (void)context->lane().poll();
    std::thread receiving([&] {
        EXPECT_EQ(receive_all(*accepted), sent);
        EXPECT_TRUE(accepted->peer_closed());
    });
    context.reset();
    sender = Sender(nullptr);
    receiving.join();
}

TEST(Close, beside_a_silent_peer_leaves_other_connections_of_a_poller_alone) {
    OnPoller on_poller;
    std::atomic<bool> closed = false;
    Connection silent = on_poller.connect([&](Connection& connection) {
        connection.on(2, [&closed](Connection& one, Message&) {
            (void)fill(one);
            { const Connection ended(std::move(one)); }  // the peer does not read yet
            closed = true;
        });
    });
    Connection other = on_poller.connect([](Connection& connection) {
        connection.on(
            3, [](Connection& one, Message& message) { (void)one.try_send(4, message.payload()); });
    });
    ASSERT_EQ(silent.try_send(2, {}), Errc::ok);
    const auto began = Clock::now();
    for (int i = 0; i < 100; ++i) {
        other.send_message(3, bytes_of("echo"), {}, soon());
        EXPECT_EQ(text_of(other.receive_message(soon())), "echo");
    }
    EXPECT_TRUE(closed);
    EXPECT_LT(Clock::now() - began, small_ring().connect.timeout / 2);
    EXPECT_GT(receive_all(silent), 0);
}

TEST(Close, in_a_handler_makes_later_calls_of_the_same_round_say_so) {
    ConnectedPair pair;
    Claim claim;
    ASSERT_EQ(pair.sender->try_claim(1, 8, claim), Errc::ok);
    pair.sender->on(2, [&](Message&) { pair.sender.reset(); });
    ASSERT_EQ(pair.receiver->try_send(2, {}), Errc::ok);
    Lane lane = pair.sender_context.lane();
    const Deadline deadline = soon();
    while (pair.sender && !deadline.passed()) (void)lane.poll();
    EXPECT_EQ(claim.commit(8), Errc::peer_lost);
}

// Layers, and programs, let grants go as soon as their connection is gone. The peer would find its
// writes refused, and no bye yet that says why.
TEST(Close, on_a_poller_ends_no_grant_before_its_bye) {
    OnPoller on_poller;
    std::atomic<bool> closed = false, looked_at = false;
    std::vector<RemoteExtent> extents;
    Grant grant;
    auto handler = [&](Connection& one, Message&) {
        if (!grant.is_ready()) return;  // a device binds its window later
        const auto lent = grant.extents();
        extents.assign(lent.begin(), lent.end());
        EXPECT_EQ(one.try_send(3, {}), Errc::ok);  // which the close waits for
        { const Connection ended(std::move(one)); }
        grant.end();
        closed = true;
        for (const Deadline limit = soon(); !looked_at && !limit.passed();) sched_yield();
    };
    Connection peer = on_poller.connect([&](Connection& connection) {
        auto* const memory = connection.receive_arena().allocate(64, 64);
        grant =
            Grant::begin(connection, {static_cast<std::byte*>(memory), 64}, Access::remote_write);
        connection.on(2, handler);
    });
    const Deadline limit = soon();
    while (!closed && !limit.passed()) {
        (void)peer.try_send(2, {});
        sched_yield();
    }
    // What follows the window in the queue: it is bound then.
    Errc told = Errc::would_block;
    for (Message message; told == Errc::would_block && !limit.passed();)
        told = peer.try_receive(message);
    ASSERT_EQ(told, Errc::ok);
    const auto* const source = static_cast<std::byte*>(peer.arena().allocate(64, 64));
    const auto write = [&] {
        std::size_t written = 0;
        const Errc error =
            peer.try_write(source, 64, extents[0].address, extents[0].remote_key, written);
        return error == Errc::ok ? peer.try_flush() : error;
    };
    Errc error = write();
    while (error == Errc::would_block && !limit.passed()) error = write();
    EXPECT_EQ(error, Errc::ok);
    looked_at = true;
    while (error <= Errc::would_block && !limit.passed()) error = write();
    EXPECT_EQ(receive_all(peer), 0);
    EXPECT_TRUE(peer.peer_closed());
}

}  // namespace
}  // namespace verbatim::test
