// Connections that move between lanes: nothing is lost or reordered, by one side or both at once,
// with all that a connection holds.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "core_messages.hpp"
#include "pair/graph_crosses.hpp"

namespace verbatim::test {
namespace {

using namespace std::chrono_literals;

Config moving_config(LaneMode mode = LaneMode::adaptive, std::size_t pollers = 0,
                     LaneMode of_pollers = LaneMode::adaptive) {
    Config config = small_ring();
    config.lane.mode = mode;
    for (std::size_t i = 0; i < pollers; ++i) config.pollers.push_back({.mode = of_pollers});
    return config;
}

std::uint64_t number_of(const Message& message) {
    std::uint64_t number = ~std::uint64_t{0};
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}
std::span<const std::byte> bytes_of_number(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}

// One end of a talk: sends the numbers from 0 on, and expects the peer's in order.
class Talker {
  public:
    explicit Talker(Connection& connection) : connection_(connection) {
        connection.on(1, [this](Message& message) {
            if (number_of(message) != received_) ++wrong_;
            ++received_;
        });
    }
    // Some messages, by both ways of sending, and a poll.
    void talk(std::uint64_t most) {
        const std::uint64_t before = sent_ + received_;
        for (int i = 0; i < 20 && sent_ < most; ++i) {
            const Errc error = i % 3 == 0 ? connection_.try_send(1, bytes_of_number(sent_))
                                          : connection_.try_batch(1, bytes_of_number(sent_));
            if (error != Errc::ok) break;
            ++sent_;
        }
        if (connection_.progress() != Errc::ok) ++wrong_;
        // On a busy machine the peer may have no processor.
        if (sent_ + received_ == before) std::this_thread::yield();
    }
    std::uint64_t sent() const { return sent_; }
    std::uint64_t received() const { return received_; }
    std::uint64_t wrong() const { return wrong_; }

  private:
    Connection& connection_;
    std::uint64_t sent_ = 0;
    std::atomic<std::uint64_t> received_{0}, wrong_{0};
};

// Drives the receiver of a pair in a thread of its own, until it ends.
class PeerThread {
  public:
    template <class Body>
    explicit PeerThread(Body body)
        : thread_([this, body]() mutable {
              while (!stop_) body();
          }) {}
    ~PeerThread() {
        stop_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

constexpr std::uint64_t kMany = 20'000;

class Moving : public testing::TestWithParam<LaneMode> {};

TEST_P(Moving, under_traffic_in_both_directions_keeps_every_message_in_order) {
    ConnectedPair pair(moving_config(GetParam()), moving_config(GetParam()));
    Talker mine(*pair.sender), theirs(*pair.receiver);
    const std::vector<Lane> lanes{pair.sender_context.lane(), pair.sender_context.make_lane(),
                                  pair.sender_context.make_lane()};
    std::size_t moves = 0;
    {
        const PeerThread peer([&] { theirs.talk(kMany); });
        const Deadline deadline = soon();
        for (std::size_t i = 0; !deadline.passed() && (mine.received() < kMany ||
                                                       theirs.received() < kMany || moves < 10);
             ++i) {
            mine.talk(kMany);
            if (i % 50 == 49) {
                pair.sender->move_to(lanes[++moves % 3]);
                ASSERT_EQ(pair.sender->lane().impl(), lanes[moves % 3].impl());
            }
        }
    }
    EXPECT_EQ(mine.received(), kMany);
    EXPECT_EQ(theirs.received(), kMany);
    EXPECT_EQ(mine.wrong() + theirs.wrong(), 0u);
    EXPECT_GE(moves, 10u);
}

// Each drives its lanes until both have all.
TEST_P(Moving, of_both_sides_at_once_succeeds_for_both) {
    ConnectedPair pair(moving_config(GetParam()), moving_config(GetParam()));
    Talker mine(*pair.sender), theirs(*pair.receiver);
    std::atomic<int> moves{0}, done{0};
    const auto run = [&](Connection& connection, Context& context, Talker& talker) {
        const Lane lanes[2] = {context.lane(), context.make_lane()};
        const Deadline deadline = soon();
        for (std::size_t i = 0; done < 2 && !deadline.passed(); ++i) {
            talker.talk(kMany);
            if (i == 100) ++done;
            if (i < 100 && i % 4 == 3) {
                connection.move_to(lanes[i / 4 % 2]);
                ++moves;
            }
        }
        while ((mine.received() < kMany || theirs.received() < kMany) && !deadline.passed())
            talker.talk(kMany);
        done += 2;
        while (done < 6 && !deadline.passed()) talker.talk(kMany);
    };
    {
        std::thread peer([&] { run(*pair.receiver, pair.receiver_context, theirs); });
        run(*pair.sender, pair.sender_context, mine);
        peer.join();
    }
    EXPECT_EQ(mine.received(), kMany);
    EXPECT_EQ(theirs.received(), kMany);
    EXPECT_EQ(mine.wrong() + theirs.wrong(), 0u);
    EXPECT_EQ(moves, 50);
}

TEST_P(Moving, between_lanes_of_other_modes_agrees_anew_on_wake_ups) {
    ConnectedPair pair(moving_config(LaneMode::busy, 1, GetParam()), moving_config(LaneMode::busy));
    const PeerThread peer([&] {
        Message message;
        while (pair.receiver->try_receive(message) == Errc::ok)
            while (pair.receiver->try_send(2, message.payload()) == Errc::would_block)
                (void)pair.receiver->progress();
        (void)pair.receiver->progress();
    });
    Lane own = pair.sender_context.lane(), polled = pair.sender_context.pollers().front()->lane();
    const auto ask = [&](std::uint64_t number) {
        pair.sender->send_message(1, bytes_of_number(number), {}, soon());
        return number_of(pair.sender->receive_message(soon()));
    };
    for (std::uint64_t i = 0; i < 10; ++i) {
        ASSERT_EQ(ask(i), i);
        pair.sender->move_to(polled);
        for (int j = 0; j < 10; ++j) ASSERT_EQ(polled.call([&] { return ask(i); }), i);
        polled.call([&] { pair.sender->move_to(own); });
    }
}

INSTANTIATE_TEST_SUITE_P(OfModes, Moving,
                         testing::Values(LaneMode::adaptive, LaneMode::event, LaneMode::busy));

// Another thread sends by a sender all the while; two pollers pass the connection to each other.
TEST(MovedConnection, goes_from_poller_to_poller_with_its_senders) {
    Context server(moving_config()), client(moving_config(LaneMode::adaptive, 2));
    Listener listener = server.listen("127.0.0.1:0");
    std::optional<Connection> served;
    std::thread accepting([&] { served.emplace(listener.accept(soon())); });
    std::optional<Sender> sender;
    Connection* hosted = nullptr;
    client.connect("127.0.0.1:" + std::to_string(listener.port()), *client.pollers().front(),
                   [&](Connection& connection) {
                       hosted = &connection;
                       sender.emplace(connection.sender());
                   });
    accepting.join();
    constexpr std::uint64_t kThreads = 2, kMessages = 5000;
    std::vector<std::uint64_t> next(kThreads);
    std::atomic<std::uint64_t> received{0}, wrong{0};
    served->on(1, [&](Message& message) {
        if (next[message.kind()]++ != number_of(message)) ++wrong;
        ++received;
    });
    {
        const PeerThread peer([&] { (void)served->progress(); });
        std::vector<std::thread> threads;
        for (std::uint64_t t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] {
                for (std::uint64_t i = 0; i < kMessages;) {
                    const Errc code =
                        sender->try_send(1, bytes_of_number(i), {}, static_cast<std::uint8_t>(t));
                    ASSERT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
                    code == Errc::ok ? void(++i) : std::this_thread::yield();
                }
            });
        std::size_t moves = 0;
        const Deadline deadline = soon();
        while ((received < kThreads * kMessages || moves < 10) && !deadline.passed()) {
            Lane from = client.pollers()[moves % 2]->lane();
            const Lane to = client.pollers()[++moves % 2]->lane();
            from.call([&] { hosted->move_to(to); });
        }
        for (std::thread& thread : threads) thread.join();
        while (received < kThreads * kMessages && !deadline.passed()) std::this_thread::yield();
    }
    EXPECT_EQ(received, kThreads * kMessages);
    EXPECT_EQ(wrong, 0u);
}

TEST(MovedConnection, keeps_held_messages_claims_and_batches) {
    ConnectedPair pair(small_ring(), small_ring());
    Lane other = pair.sender_context.make_lane();
    for (const char* text : {"first", "second"})
        pair.receiver->send_message(1, bytes_of(text), {}, soon());
    Message first = pair.sender->receive_message(soon());
    Message second = pair.sender->receive_message(soon());
    Claim claim;
    ASSERT_EQ(pair.sender->try_batch(2, bytes_of("batched")), Errc::ok);
    ASSERT_EQ(pair.sender->try_claim(2, 7, claim), Errc::ok);
    std::memcpy(claim.bytes().data(), "claimed", 7);
    {
        const PeerThread peer([&] { (void)pair.receiver->progress(); });
        pair.sender->move_to(other);
    }
    EXPECT_EQ(text_of(first), "first");
    EXPECT_EQ(text_of(second), "second");
    second.release();
    first.release();
    ASSERT_EQ(claim.commit(7), Errc::ok);
    for (const char* text : {"batched", "claimed"}) {
        Message message;
        const Deadline deadline = soon();
        while (pair.receiver->try_receive(message) == Errc::would_block && !deadline.passed()) {
            (void)pair.receiver->progress();
            (void)other.poll();
        }
        EXPECT_EQ(text_of(message), text);
    }
    // Both rings go around several times.
    for (std::uint64_t i = 0; i < 1000; ++i) {
        pair.receiver->send_message(1, bytes_of_number(i), {}, soon());
        ASSERT_EQ(number_of(pair.sender->receive_message(soon())), i);
        pair.sender->send_message(1, bytes_of_number(i), {}, soon());
        ASSERT_EQ(number_of(pair.receiver->receive_message(soon())), i);
    }
}

TEST(MovedConnection, carries_on_with_a_message_in_fragments) {
    ConnectedPair pair(small_ring(), small_ring());
    const std::string text(1 << 20, 'x');
    const Lane lanes[2] = {pair.sender_context.lane(), pair.sender_context.make_lane()};
    std::size_t bytes = 0, moves = 0;
    pair.sender->on(1, [&](Message& message) { bytes = message.payload().size(); });
    std::thread peer(
        [&] { pair.receiver->send_message(1, bytes_of(text), {}, Deadline::after(60s)); });
    const Deadline deadline = soon();
    while (bytes == 0 && !deadline.passed()) {
        for (int i = 0; i < 20; ++i) (void)pair.sender->progress();
        // The sending call may have returned: then nobody drives the peer.
        if (bytes == 0 && moves < 5 && pair.sender->state() == Errc::ok) {
            try {
                pair.sender->move_to(lanes[++moves % 2]);
            } catch (const Error& error) {
                ADD_FAILURE() << error.what();
                break;
            }
        }
    }
    peer.join();
    EXPECT_EQ(bytes, text.size());
    EXPECT_EQ(moves, 5u);
}

// A message of the receiver's that the sender takes: what was posted before it has been executed.
void tell_of_grant(ConnectedPair& pair) {
    ASSERT_EQ(pair.receiver->try_send(1, {}), Errc::ok);
    const PeerThread peer([&] { (void)pair.receiver->progress(); });
    (void)pair.sender->receive_message(soon());
}

TEST(MovedConnection, has_done_its_one_sided_writes) {
    ConnectedPair pair;
    auto* const target =
        static_cast<std::byte*>(pair.receiver->receive_arena().allocate(65536, 64));
    auto* const source = static_cast<std::byte*>(pair.sender->arena().allocate(65536, 64));
    std::memset(source, 0x22, 65536);
    Lane other = pair.sender_context.make_lane();
    Grant grant(*pair.receiver, {target, 65536}, Access::remote_write);
    tell_of_grant(pair);
    std::size_t written = 0;
    ASSERT_EQ(pair.sender->try_write(source, 65536, grant.extents()[0].address,
                                     grant.extents()[0].remote_key, written),
              Errc::ok);
    Errc code = Errc::ok;
    {
        const PeerThread peer([&] { (void)pair.receiver->progress(); });
        code = error_code_of([&] { pair.sender->move_to(other); });
        EXPECT_EQ(code, Errc::unsupported) << "the peer's window serves the old queue pair";
        const Deadline deadline = soon();
        while ((code = pair.sender->try_flush()) == Errc::would_block && !deadline.passed()) {
        }
    }
    EXPECT_EQ(code, Errc::ok);
    grant.wait_end(soon());
    EXPECT_EQ(std::memcmp(target, source, 65536), 0);
    {
        const PeerThread peer([&] { (void)pair.receiver->progress(); });
        pair.sender->move_to(other);
    }
    EXPECT_EQ(pair.sender->try_flush(), Errc::ok);
    // A window that was closed before the move is opened for the new queue pair.
    std::memset(target, 0, 65536);
    Grant again(*pair.receiver, {target, 65536}, Access::remote_write);
    tell_of_grant(pair);
    ASSERT_EQ(pair.sender->try_write(source, 65536, again.extents()[0].address,
                                     again.extents()[0].remote_key, written),
              Errc::ok);
    const Deadline deadline = soon();
    while ((code = pair.sender->try_flush()) == Errc::would_block && !deadline.passed())
        (void)pair.receiver->progress();
    EXPECT_EQ(code, Errc::ok);
    EXPECT_EQ(std::memcmp(target, source, 65536), 0);
}

TEST(MovedConnection, carries_graphs) {
    ConnectedPair pair;
    {
        const PeerThread peer([&] { (void)pair.receiver->progress(); });
        pair.sender->move_to(pair.sender_context.make_lane());
    }
    EXPECT_TRUE(test::graph_crosses(*pair.sender, *pair.receiver, soon()));
}

TEST(MovedConnection, is_refused_where_it_cannot_move_and_stays_usable) {
    ConnectedPair pair(moving_config(), moving_config());
    Lane other = pair.sender_context.make_lane();
    const auto code_of_move = [&](const Lane& lane) {
        const PeerThread peer([&] { (void)pair.receiver->progress(); });
        return error_code_of([&] { pair.sender->move_to(lane); });
    };
    EXPECT_EQ(code_of_move(pair.receiver_context.lane()), Errc::invalid_argument);
    EXPECT_EQ(code_of_move(pair.sender->lane()), Errc::ok) << "it is there already";
    Errc in_handler = Errc::ok;
    pair.sender->on(1, [&](Connection& connection, Message&) {
        in_handler = error_code_of([&] { connection.move_to(other); });
    });
    pair.receiver->send_message(1, {}, {}, soon());
    const Deadline deadline = soon();
    while (in_handler == Errc::ok && !deadline.passed()) (void)pair.sender->progress();
    EXPECT_EQ(in_handler, Errc::would_deadlock);
    auto* const memory = static_cast<std::byte*>(pair.sender->receive_arena().allocate(4096, 64));
    {
        Grant grant(*pair.sender, {memory, 4096}, Access::remote_write);
        EXPECT_EQ(code_of_move(other), Errc::invalid_argument);
        grant.wait_end(soon());
    }
    EXPECT_EQ(code_of_move(other), Errc::ok);
    pair.sender->send_message(2, {}, {}, soon());
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 2);
}

TEST(MovedConnection, that_its_own_handler_ends_tells_the_call) {
    ConnectedPair pair(moving_config(), moving_config());
    pair.sender->on(1, [&](Message&) { pair.sender.reset(); });
    pair.receiver->send_message(1, {}, {}, soon());
    const Lane other = pair.sender_context.make_lane();
    const PeerThread peer([&] { (void)pair.receiver->progress(); });
    const Errc code = error_code_of([&] { pair.sender->move_to(other); });
    EXPECT_EQ(code, Errc::peer_lost);
    EXPECT_FALSE(pair.sender.has_value());
}

// Its peer closes while it moves: what came before the bye is received.
TEST(MovedConnection, whose_peer_closes_is_lost_or_has_moved) {
    for (int i = 0; i < 20; ++i) {
        ConnectedPair pair(moving_config(), moving_config());
        std::atomic<bool> polls{false};
        ASSERT_EQ(pair.receiver->try_send(1, bytes_of("before")), Errc::ok);
        std::thread peer([&] {
            polls = true;
            for (int polled = 0; polled < i * 20; ++polled) (void)pair.receiver->progress();
            pair.receiver.reset();
        });
        while (!polls) std::this_thread::yield();
        const Errc code =
            error_code_of([&] { pair.sender->move_to(pair.sender_context.make_lane()); });
        peer.join();
        EXPECT_TRUE(code == Errc::ok || code == Errc::peer_lost) << name(code);
        EXPECT_EQ(text_of(pair.sender->receive_message(soon())), "before");
        EXPECT_EQ(error_code_of([&] { pair.sender->receive_message(soon()); }), Errc::peer_lost);
    }
}

}  // namespace
}  // namespace verbatim::test
