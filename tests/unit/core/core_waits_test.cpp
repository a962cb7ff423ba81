// What goes on while a thread waits: pollers whose tasks wait for each other, handlers, which must
// not, and the other connections of a lane on which somebody accepts or connects.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "core_fault.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(60s); }

Config waits_config(std::size_t pollers, LaneMode mode) {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.mode = mode;
    for (std::size_t i = 0; i < pollers; ++i) config.pollers.push_back({.mode = mode});
    return config;
}

std::string address_of(const Listener& listener) {
    return "127.0.0.1:" + std::to_string(listener.port());
}

template <class Condition>
bool wait_until(Condition condition) {
    const Deadline deadline = soon();
    while (!condition() && !deadline.passed()) std::this_thread::yield();
    return condition();
}

// Threads that call meet() leave it when so many have come.
class MeetingPoint {
  public:
    explicit MeetingPoint(int most) : missing_(most) {}
    void meet() {
        --missing_;
        EXPECT_TRUE(wait_until([&] { return missing_ <= 0; }));
    }

  private:
    std::atomic<int> missing_;
};

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}

// Connected: `asker`, driven by its own blocking calls, to `answerer`, which answers each message
// of channel 1 by its handler when its lane is polled. A message of channel 2 ends it.
struct Answering {
    explicit Answering(const Config& config) : pair(config, config) {
        pair.receiver->on(1, [](Connection& caller, Message& message) {
            EXPECT_EQ(caller.try_send(1, message.payload()), Errc::ok);
        });
        pair.receiver->on(2, [this](Message&) { pair.receiver.reset(); });
    }
    void ask(std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            pair.sender->send_message(1, bytes_of(i), {}, soon());
            const Message answer = pair.sender->receive_message(soon());
            ASSERT_EQ(answer.payload().size(), sizeof i);
            EXPECT_EQ(std::memcmp(answer.payload().data(), &i, sizeof i), 0) << i;
        }
    }
    void end_answerer() {
        pair.sender->send_message(2, {}, {}, soon());
        EXPECT_EQ(test::error_code_of([&] { pair.sender->receive_message(soon()); }),
                  Errc::peer_lost);
        EXPECT_TRUE(pair.sender->peer_closed());
    }
    Context& asking() { return pair.sender_context; }
    Context& answering() { return pair.receiver_context; }
    test::ConnectedPair pair;
};

Config patient_config(LaneMode mode) {
    Config config = waits_config(0, mode);
    config.connect.timeout = 60s;
    return config;
}

class Waits : public testing::TestWithParam<LaneMode> {};

TEST_P(Waits, of_two_pollers_tasks_for_each_other_end) {
    Context context(waits_config(2, GetParam()));
    Lane a = context.pollers()[0]->lane(), b = context.pollers()[1]->lane();
    MeetingPoint point(2);
    std::atomic<int> sum{0};
    const auto waits_for = [&](Lane& other) {
        return [&]() noexcept {
            point.meet();
            for (int i = 0; i < 100; ++i) sum += other.call([] { return 1; });
        };
    };
    a.submit(waits_for(b));
    b.submit(waits_for(a));
    EXPECT_TRUE(wait_until([&] { return sum == 200; })) << sum;
}

TEST_P(Waits, of_tasks_may_go_there_and_back) {
    Context context(waits_config(2, GetParam()));
    Lane a = context.pollers()[0]->lane(), b = context.pollers()[1]->lane();
    EXPECT_EQ(a.call([&] {
        return b.call([&] { return a.call([&] { return b.call([] { return 7; }); }); });
    }),
              7);
    EXPECT_EQ(
        test::error_code_of([&] {
            a.call([&] { b.call([] { throw Error(Errc::bad_pointer, "test", "thrown there"); }); });
        }),
        Errc::bad_pointer);
}

TEST_P(Waits, of_many_tasks_at_a_time_end) {
    Context context(waits_config(2, GetParam()));
    Lane a = context.pollers()[0]->lane(), b = context.pollers()[1]->lane();
    std::atomic<int> done{0};
    for (int i = 0; i < 1000; ++i) a.submit([&]() noexcept { done += b.call([] { return 1; }); });
    EXPECT_TRUE(wait_until([&] { return done == 1000; })) << done;
}

// Neither may take so many at a time: some are told so, and none waits for ever.
TEST_P(Waits, of_many_tasks_of_both_pollers_end) {
    Context context(waits_config(2, GetParam()));
    Lane a = context.pollers()[0]->lane(), b = context.pollers()[1]->lane();
    MeetingPoint point(2);
    std::atomic<int> ended{0};
    const auto waits_for = [&](Lane& other) {
        return [&]() noexcept {
            const Errc code = test::error_code_of([&] { other.call([] {}); });
            EXPECT_TRUE(code == Errc::ok || code == Errc::would_deadlock) << name(code);
            ++ended;
        };
    };
    for (Lane* lane : {&a, &b}) lane->submit([&]() noexcept { point.meet(); });
    for (int i = 0; i < 500; ++i) a.submit(waits_for(b)), b.submit(waits_for(a));
    EXPECT_TRUE(wait_until([&] { return ended == 1000; })) << ended;
    EXPECT_EQ(a.call([] { return 7; }), 7);
}

TEST_P(Waits, of_many_tasks_that_connect_end) {
    Context server(waits_config(1, GetParam())), client(waits_config(0, GetParam()));
    Listener listener = server.listen("127.0.0.1:0");
    std::atomic<int> accepted{0};
    listener.serve(server.pollers(), [&](Connection&) { ++accepted; });
    std::vector<Connection> connected;
    for (int i = 0; i < 50; ++i)
        client.lane().submit(
            [&]() noexcept { connected.push_back(client.connect(address_of(listener))); });
    (void)client.lane().poll();
    EXPECT_EQ(connected.size(), 50u);
    EXPECT_TRUE(wait_until([&] { return accepted == 50; })) << accepted;
}

// Each poller is also asked to make room for the caller of the other.
TEST_P(Waits, of_two_pollers_that_connect_to_each_other_end) {
    Context context(waits_config(2, GetParam()));
    Listener listener = context.listen("127.0.0.1:0");
    std::atomic<int> accepted{0}, connected{0};
    listener.serve(context.pollers(), [&](Connection&) { ++accepted; });
    MeetingPoint point(2);
    std::vector<Errc> codes(2, Errc::would_block);
    std::atomic<int> done{0};
    for (std::size_t i = 0; i < 2; ++i)
        context.pollers()[i]->lane().submit([&, i]() noexcept {
            point.meet();
            codes[i] = test::error_code_of([&] {
                context.connect(address_of(listener), *context.pollers()[1 - i],
                                [&](Connection&) { ++connected; });
            });
            ++done;
        });
    ASSERT_TRUE(wait_until([&] { return done == 2; }));
    EXPECT_EQ(codes, std::vector<Errc>(2, Errc::ok));
    EXPECT_TRUE(wait_until([&] { return accepted == 2; })) << accepted;
    EXPECT_EQ(connected, 2);
}

TEST_P(Waits, of_handlers_for_another_poller_are_refused) {
    Context server(waits_config(2, GetParam())), client(waits_config(0, GetParam()));
    Listener listener = server.listen("127.0.0.1:0");
    MeetingPoint point(2);
    std::atomic<int> refused{0}, served{0};
    listener.serve(server.pollers(), [&](Connection& connection) {
        // Callers are given to the pollers in turn.
        Poller& other = *server.pollers()[static_cast<std::size_t>(1 - served++ % 2)];
        connection.on(1, [&](Connection& caller, Message& message) {
            point.meet();  // both handlers run
            try {
                server.connect(address_of(listener), other, [](Connection&) {});
            } catch (const Error& error) {
                EXPECT_EQ(error.code(), Errc::would_deadlock);
                EXPECT_NE(std::string(error.what()).find("handler"), std::string::npos);
                EXPECT_NE(std::string(error.what()).find("submit"), std::string::npos);
                ++refused;
            }
            EXPECT_EQ(caller.try_send(2, message.payload()), Errc::ok);
        });
    });
    Connection first = client.connect(address_of(listener));
    Connection second = client.connect(address_of(listener));
    for (Connection* connection : {&first, &second}) connection->send_message(1, {}, {}, soon());
    for (Connection* connection : {&first, &second})
        EXPECT_EQ(connection->receive_message(soon()).channel(), 2);
    EXPECT_EQ(refused, 2);
}

// Only accept() polls the lane of the answering side.
TEST_P(Waits, for_a_silent_caller_keep_no_other_connection_of_the_lane_waiting) {
    Answering both(patient_config(GetParam()));
    Listener listener = both.answering().listen("127.0.0.1:0");
    const auto silent = test::RawSocket::connected(listener.port());
    std::thread asking([&] {
        both.ask(300);
        EXPECT_EQ(both.answering().lane().call([] { return 7; }), 7);
        both.end_answerer();
        const Connection last = both.asking().connect(address_of(listener));
    });
    const Connection accepted = listener.accept(soon());
    asking.join();
    EXPECT_FALSE(both.pair.receiver);
}

TEST_P(Waits, that_end_at_their_deadline_leave_the_lane_usable) {
    Answering both(patient_config(GetParam()));
    Listener listener = both.answering().listen("127.0.0.1:0");
    EXPECT_EQ(test::error_code_of([&] { (void)listener.accept(Deadline::after(1ms)); }),
              Errc::timeout);
    std::atomic<bool> done{false};
    std::thread asking([&] {
        both.ask(100);
        done = true;
    });
    while (!done) (void)both.answering().lane().poll();
    asking.join();
}

// Only connect() polls the lane of the answering side. The listener hangs up in the end.
TEST_P(Waits, for_a_silent_listener_keep_no_other_connection_of_the_lane_waiting) {
    Answering both(patient_config(GetParam()));
    test::Stranger silent([&](const test::RawSocket&) {
        both.ask(300);
        EXPECT_EQ(both.answering().lane().call([] { return 7; }), 7);
        both.end_answerer();
    });
    EXPECT_NE(test::error_code_of([&] { both.answering().connect(test::local(silent.port())); }),
              Errc::ok);
    EXPECT_FALSE(both.pair.receiver);
}

// The message comes once the caller, whose wait runs the task, was accepted.
TEST_P(Waits, of_a_task_for_a_message_keep_no_handshake_waiting) {
    test::ConnectedPair pair(waits_config(0, GetParam()), waits_config(0, GetParam()));
    Listener listener = pair.sender_context.listen("127.0.0.1:0");
    std::thread accepting([&] {
        const Connection accepted = listener.accept(soon());
        pair.sender->send_message(1, {}, {}, soon());
    });
    bool received = false;
    pair.receiver_context.lane().submit(
        [&]() noexcept { received = pair.receiver->receive_message(soon()).channel() == 1; });
    const Connection connected = pair.receiver_context.connect(address_of(listener));
    EXPECT_TRUE(received);
    accepting.join();
}

// Each side connects to the other in a task of its accept().
TEST_P(Waits, of_tasks_that_connect_keep_no_caller_waiting) {
    Context one(waits_config(0, GetParam())), other(waits_config(0, GetParam()));
    Listener of_one = one.listen("127.0.0.1:0"), of_other = other.listen("127.0.0.1:0");
    MeetingPoint point(2);
    const auto meet = [&](Context& context, Listener& listener, const Listener& to) {
        std::optional<Connection> connected;
        context.lane().submit([&]() noexcept {
            point.meet();
            connected.emplace(context.connect(address_of(to)));
        });
        const Connection accepted = listener.accept(soon());
        EXPECT_TRUE(connected);
    };
    std::thread beside([&] { meet(other, of_other, of_one); });
    meet(one, of_one, of_other);
    beside.join();
}

INSTANTIATE_TEST_SUITE_P(OfModes, Waits, testing::Values(LaneMode::adaptive, LaneMode::event));

}  // namespace
}  // namespace verbatim
