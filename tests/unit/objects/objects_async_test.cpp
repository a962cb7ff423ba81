// Asynchronous operations: what drives them, in which order they end, and with what.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <list>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "async/poll_until.hpp"
#include "async/started.hpp"
#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_code_of;
using test::Pair;
using test::poll_until;
using test::Started;
using Numbers = std::vector<int>;

constexpr std::size_t kLong = 400'000;  // in several segments

std::vector<Numbers> graphs_of_all_sizes(std::size_t count) {
    std::vector<Numbers> graphs;
    for (std::size_t i = 0; i < count; ++i)
        graphs.push_back(Numbers(i % 50 == 7 ? kLong : i % 10, static_cast<int>(i)));
    return graphs;
}

TEST(AsyncOperations, hundreds_are_under_way_at_once_and_arrive_in_order) {
    Pair pair;
    const auto graphs = graphs_of_all_sizes(300);
    std::deque<Receiving<Numbers>> receiving;
    std::deque<Sending<Numbers>> sending;
    for (std::size_t i = 0; i < graphs.size() / 2; ++i) receiving.emplace_back(*pair.receiver);
    for (const Numbers& graph : graphs) sending.emplace_back(*pair.sender, graph);
    while (receiving.size() < graphs.size()) receiving.emplace_back(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return receiving.back().test(); }));
    for (std::size_t i = 0; i < graphs.size(); ++i) {
        ASSERT_TRUE(receiving[i].test());
        EXPECT_EQ(*receiving[i].take(), graphs[i]);
    }
    for (Sending<Numbers>& one : sending) {
        one.wait();
        EXPECT_TRUE(one.reusable());
        EXPECT_GT(one.report().object_bytes, 0u);
    }
}

TEST(AsyncOperations, callbacks_are_told_by_polls_and_may_end_their_operation_and_begin_others) {
    Pair pair;
    constexpr int kRounds = 200;
    struct Chain {
        Pair& pair;
        Numbers graph{0};
        int sent = 0, received = 0;
        struct Next {
            Chain* chain;
            void operator()(Sending<Numbers>& done) const {
                EXPECT_EQ(done.error(), nullptr);
                chain->graph[0] = ++chain->sent;
                chain->is_free = true;
            }
        };
        bool is_free = true;
        std::optional<WhenSent<Numbers, Next>> sending;
        struct Taken {
            Chain* chain;
            void operator()(Receiving<Numbers>& done) const {
                EXPECT_EQ((*done.take())[0], chain->received++);
                chain->receiving.pop_front();  // this one
                if (chain->received < kRounds) chain->await();
            }
        };
        std::list<WhenReceived<Numbers, Taken>> receiving;
        void await() { receiving.emplace_back(*pair.receiver, ReceiveOptions{}, Taken{this}); }
    } chain{.pair = pair};
    chain.await();
    ASSERT_TRUE(poll_until(pair, [&] {
        if (chain.is_free && chain.sent < kRounds) {
            chain.is_free = false;
            chain.sending.emplace(*pair.sender, chain.graph, SendOptions{}, Chain::Next{&chain});
        }
        return chain.received == kRounds;
    }));
    EXPECT_TRUE(chain.receiving.empty());
}

Started send_all(Connection& connection, const std::vector<Numbers>& graphs, std::size_t& sent) {
    for (const Numbers& graph : graphs) {
        const SendReport report = co_await send_async(connection, graph);
        sent += report.object_bytes != 0;
    }
}

Started receive_all(Connection& connection, std::vector<Received<Numbers>>& graphs) {
    for (;;) {
        try {
            graphs.push_back(co_await receive_async<Numbers>(connection));
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::peer_lost);
            break;
        }
    }
    graphs.clear();
}

TEST(AsyncOperations, coroutines_go_on_with_polls_of_the_lane_and_hear_of_the_end) {
    Pair pair;
    const auto graphs = graphs_of_all_sizes(100);
    std::size_t sent = 0;
    std::vector<Received<Numbers>> received;
    receive_all(*pair.receiver, received);
    send_all(*pair.sender, graphs, sent);
    ASSERT_TRUE(poll_until(
        pair, [&] { return sent == graphs.size() && received.size() == graphs.size(); }));
    for (std::size_t i = 0; i < graphs.size(); ++i) EXPECT_EQ(*received[i], graphs[i]);
    pair.sender.reset();
    ASSERT_TRUE(poll_until(pair, [&] { return received.empty(); }));
}

TEST(AsyncOperations, a_graph_is_reusable_before_it_is_delivered_and_needs_no_receive_for_either) {
    Pair pair;
    EXPECT_FALSE(readable(*pair.receiver)) << "from then on polls of its lane lend memory";
    const Numbers small{1, 2}, large(kLong, 3);
    Sending<Numbers> first(*pair.sender, small);
    EXPECT_TRUE(first.reusable()) << "it was copied into the ring";
    Sending<Numbers> second(*pair.sender, large, {.until = Until::delivered});
    EXPECT_FALSE(second.reusable());
    EXPECT_FALSE(second.delivered());
    ASSERT_TRUE(poll_until(pair, [&] {
        EXPECT_TRUE(second.reusable() || !second.delivered());
        return second.test() && first.delivered();
    }));
    EXPECT_TRUE(second.delivered());
    const auto report = send(*pair.sender, small, {.until = Until::delivered});
    EXPECT_GT(report.object_bytes, 0u);
    pair.sender.reset();
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), large);
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
}

TEST(AsyncOperations, what_a_lost_peer_holds_stays_delivered) {
    Pair pair;
    const Numbers small{1}, large(kLong, 3);
    Sending<Numbers> first(*pair.sender, small, {.until = Until::delivered});
    ASSERT_TRUE(poll_until(pair, [&] { return first.test(); }));
    Sending<Numbers> second(*pair.sender, large, {.until = Until::delivered});
    pair.receiver.reset();
    ASSERT_TRUE(poll_until(pair, [&] { return second.test(); }));
    ASSERT_NE(second.error(), nullptr);
    EXPECT_EQ(second.error()->code(), Errc::peer_lost);
    EXPECT_FALSE(second.delivered());
    EXPECT_TRUE(first.delivered());
}

TEST(AsyncOperations, blocking_calls_overtake_no_operation_that_waits) {
    Pair pair;
    const Numbers large(kLong, 1), small{2}, last{3};
    Receiving<Numbers> receiving(*pair.receiver);
    Sending<Numbers> first(*pair.sender, large);
    std::thread receiver([&] {
        EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
        EXPECT_EQ(*receive<Numbers>(*pair.receiver), last);
    });
    send(*pair.sender, small);
    send(*pair.sender, last);
    receiver.join();
    EXPECT_TRUE(first.test());
    EXPECT_EQ(*receiving.take(), large);
}

TEST(AsyncOperations, a_deadline_ends_an_operation_and_the_others_go_on) {
    Pair pair;
    const Numbers large(kLong, 1), small{2};
    Sending<Numbers> late(*pair.sender, large, {.deadline = Deadline::after(10ms)});
    Sending<Numbers> behind(*pair.sender, small);
    Receiving<Numbers> none(*pair.receiver, {Deadline::after(10ms), 9});
    while (!late.test()) {
    }
    ASSERT_NE(late.error(), nullptr);
    EXPECT_EQ(late.error()->code(), Errc::timeout);
    EXPECT_EQ(error_code_of([&] { none.wait(); }), Errc::timeout);
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
    behind.wait();
}

TEST(AsyncOperations, a_deadline_in_the_midst_of_writes_holds_nothing_up_while_the_handle_lives) {
    Pair pair;
    const std::vector<double> large(3'000'000, 1), small{2};
    for (int time = 0; time < 12; ++time) {
        Sending<std::vector<double>> late(
            *pair.sender, large, {.deadline = Deadline::after(std::chrono::milliseconds(time))});
        Sending<std::vector<double>> behind(*pair.sender, small, {.until = Until::delivered});
        ASSERT_TRUE(poll_until(pair, [&] { return late.test(); }));
        std::optional<Receiving<std::vector<double>>> first(std::in_place, *pair.receiver);
        ASSERT_TRUE(poll_until(pair, [&] { return first->test(); })) << time;
        if (late.error() == nullptr) {
            EXPECT_EQ(first->take()->size(), large.size());
            first.emplace(*pair.receiver);
            ASSERT_TRUE(poll_until(pair, [&] { return first->test(); })) << time;
        }
        EXPECT_EQ(*first->take(), small) << time;
        ASSERT_TRUE(poll_until(pair, [&] { return behind.test(); }));
    }
}

TEST(AsyncOperations, a_receive_whose_sender_stops_in_the_middle_fails_and_leaves_the_graph) {
    Config config = test::small_config();
    config.objects.timeout = 500ms;
    Pair pair(test::small_config(), config);
    const Numbers large(kLong, 1);
    Receiving<Numbers> receiving(*pair.receiver), behind(*pair.receiver);
    SendOperation<Numbers> sending(*pair.sender, large);
    EXPECT_FALSE(sending.step());
    ASSERT_TRUE(poll_until(pair, [&] { return receiving.test(); }));
    EXPECT_EQ(error_code_of([&] { receiving.wait(); }), Errc::timeout);
    bool sent = false;
    ASSERT_TRUE(poll_until(pair, [&] {
        sent = sent || sending.step();
        return sent && behind.test();
    }));
    EXPECT_EQ(*behind.take(), large);
}

TEST(AsyncOperations, a_graph_that_is_refused_costs_no_other_one) {
    Pair pair;
    const Numbers numbers(kLong, 1);
    const std::string text(100, 'x');
    Receiving<std::string> wrong(*pair.receiver), right(*pair.receiver);
    Sending<Numbers> first(*pair.sender, numbers);
    Sending<std::string> second(*pair.sender, text);
    ASSERT_TRUE(poll_until(pair, [&] { return first.test() && second.test() && right.test(); }));
    EXPECT_EQ(error_code_of([&] { first.wait(); }), Errc::type_mismatch);
    EXPECT_EQ(error_code_of([&] { wrong.take(); }), Errc::type_mismatch);
    EXPECT_EQ(*right.take(), text);
}

TEST(AsyncOperations, handles_that_end_early_leave_the_others_as_they_were) {
    Pair pair;
    const Numbers large(kLong, 1), small{2};
    // After so many polls, in whatever state it is then.
    for (int polls = 0; polls < 40; ++polls) {
        std::optional<Sending<Numbers>> first(std::in_place, *pair.sender, large);
        Sending<Numbers> second(*pair.sender, small);
        std::optional<Receiving<Numbers>> receiving(std::in_place, *pair.receiver);
        Receiving<Numbers> next(*pair.receiver);
        for (int i = 0; i < polls; ++i) {
            (void)pair.sender_context.lane().poll();
            (void)pair.receiver_context.lane().poll();
        }
        const bool was_sent = first->test(), was_received = receiving->test();
        first.reset();
        receiving.reset();
        ASSERT_TRUE(poll_until(pair, [&] { return second.test() && next.test(); }));
        const Numbers got = *next.take();
        if (!was_received && got == large)
            EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
        else
            EXPECT_EQ(got, small) << was_sent << was_received << polls;
    }
}

template <class Operations>
int count_failed(Operations& operations) {
    int failed = 0;
    for (auto& one : operations) failed += one.test() && one.error() != nullptr;
    return failed;
}

struct Count {
    int* told;
    void operator()(objects::DrivenOperation&) const { ++*told; }
};

TEST(AsyncOperations, each_ends_once_when_the_peer_ends_the_connection) {
    Pair pair;
    const auto graphs = graphs_of_all_sizes(200);
    int told = 0;
    std::deque<WhenSent<Numbers, Count>> sending;
    std::deque<WhenReceived<Numbers, Count>> receiving;
    for (const Numbers& graph : graphs) {
        sending.emplace_back(*pair.sender, graph, SendOptions{.until = Until::delivered},
                             Count{&told});
        receiving.emplace_back(*pair.sender, ReceiveOptions{}, Count{&told});
    }
    for (int i = 0; i < 20; ++i) (void)pair.receiver_context.lane().poll();
    pair.receiver.reset();
    ASSERT_TRUE(poll_until(pair, [&] { return told == 400; }));
    EXPECT_EQ(count_failed(receiving), 200);
    EXPECT_GT(count_failed(sending), 0);
    for (int i = 0; i < 100; ++i) (void)pair.sender_context.lane().poll();
    EXPECT_EQ(told, 400);
    EXPECT_EQ(error_code_of([&] { Sending<Numbers>(*pair.sender, graphs[0]).wait(); }),
              Errc::peer_lost);
}

TEST(AsyncOperations, hear_of_the_peers_end_while_a_message_of_the_program_waits) {
    for (const bool waits : {false, true}) {
        Pair pair;
        const std::byte text[5]{};
        pair.sender->send_message(3, text, {}, Deadline::after(20s));
        int told = 0;
        const WhenReceived<Numbers, Count> receiving(*pair.receiver, {}, Count{&told});
        pair.sender.reset();
        if (waits) {
            EXPECT_EQ(error_code_of([&] { receive<Numbers>(*pair.receiver); }), Errc::peer_lost);
        }
        ASSERT_TRUE(poll_until(pair, [&] { return told == 1; }));
        ASSERT_NE(receiving.error(), nullptr);
        EXPECT_EQ(receiving.error()->code(), Errc::peer_lost);
        EXPECT_EQ(pair.receiver->state(), Errc::ok) << "the message can be received";
        EXPECT_EQ(pair.receiver->receive_message(Deadline::after(20s)).payload().size(), 5u);
        ASSERT_TRUE(poll_until(pair, [&] { return pair.receiver->state() != Errc::ok; }));
        EXPECT_TRUE(pair.receiver->peer_closed());
    }
}

TEST(AsyncOperations, graphs_that_came_are_received_behind_the_peers_end) {
    Pair pair;
    const Numbers small{1}, large(kLong, 7);
    send(*pair.sender, small);
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), small);
    Sending<Numbers> sending(*pair.sender, large, {.until = Until::delivered});
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test(); }));
    pair.sender->send_message(3, {}, {}, Deadline::after(20s));
    pair.sender.reset();
    for (int i = 0; i < 1000; ++i) (void)pair.receiver_context.lane().poll();
    EXPECT_EQ(*receive<Numbers>(*pair.receiver), large);
    EXPECT_EQ(error_code_of([&] { receive<Numbers>(*pair.receiver); }), Errc::peer_lost);
    EXPECT_EQ(pair.receiver->receive_message(Deadline::after(20s)).channel(), 3);
}

TEST(AsyncOperations, each_ends_once_when_the_program_ends_the_connection_even_in_a_callback) {
    for (const bool in_callback : {false, true}) {
        Pair pair;
        const auto graphs = graphs_of_all_sizes(100);
        int told = 0;
        std::deque<WhenSent<Numbers, Count>> sending;
        std::deque<WhenReceived<Numbers, Count>> receiving;
        const auto end = [&](Receiving<Numbers>&) { pair.receiver.reset(); };
        std::optional<WhenReceived<Numbers, decltype(end)>> ending;
        if (in_callback) ending.emplace(*pair.receiver, ReceiveOptions{}, end);
        for (const Numbers& graph : graphs) {
            sending.emplace_back(*pair.receiver, graph, SendOptions{}, Count{&told});
            receiving.emplace_back(*pair.receiver, ReceiveOptions{}, Count{&told});
        }
        if (in_callback)
            send(*pair.sender, graphs[0]);
        else
            pair.receiver.reset();
        ASSERT_TRUE(poll_until(pair, [&] { return told == 200; }));
        EXPECT_EQ(count_failed(receiving), 100);
        EXPECT_FALSE(pair.receiver);
    }
}

struct Web {
    std::array<Web*, 4> links{};
};

TEST(AsyncOperations, a_walk_that_has_sent_nothing_yet_fails_at_the_end_of_the_connection) {
    Pair pair;
    std::vector<Web> webs(100'000);
    std::mt19937 random(1);
    for (Web& web : webs)
        for (Web*& link : web.links) link = &webs[random() % webs.size()];
    int told = 0;
    const WhenSent<Web, Count> first(*pair.sender, webs[0], {}, Count{&told}),
        second(*pair.sender, webs[1], {}, Count{&told});
    ASSERT_EQ(told, 0);
    pair.sender.reset();
    EXPECT_EQ(told, 2);
    ASSERT_NE(first.error(), nullptr);
    ASSERT_NE(second.error(), nullptr);
}

TEST(AsyncOperations, a_handler_may_end_an_operation_while_it_is_driven) {
    Pair pair;
    const Numbers large(kLong, 1), small{2};
    std::optional<Sending<Numbers>> sending(std::in_place, *pair.sender, large);
    pair.sender->on(3, [&](Message&) { sending.reset(); });
    (void)pair.receiver->try_send(3, {});
    ASSERT_TRUE(poll_until(pair, [&] { return !sending; }));
    Receiving<Numbers> receiving(*pair.receiver);
    send(*pair.sender, small);
    receiving.wait();
    EXPECT_EQ(*receiving.take(), small);
}

TEST(AsyncOperations, a_wait_in_a_handler_is_refused) {
    Pair pair;
    std::optional<Errc> code;
    pair.receiver->on(3, [&](Message&) {
        Receiving<Numbers> receiving(*pair.receiver);
        EXPECT_FALSE(receiving.test());
        code = error_code_of([&] { receiving.wait(); });
    });
    (void)pair.sender->try_send(3, {});
    ASSERT_TRUE(poll_until(pair, [&] { return code.has_value(); }));
    EXPECT_EQ(*code, Errc::would_deadlock);
}

TEST(AsyncOperations, operations_follow_their_connection_where_it_is_moved) {
    Pair pair;
    const Numbers numbers(kLong, 1);
    SendOperation<Numbers> stepped(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    stepped.step();
    Sending<Numbers> sending(*pair.sender, numbers);
    Receiving<Numbers> driven(*pair.receiver);
    Connection sender = std::move(*pair.sender), receiver = std::move(*pair.receiver);
    pair.sender.reset();
    pair.receiver.reset();
    bool sent = false, received = false;
    ASSERT_TRUE(poll_until(pair, [&] {
        sent = sent || stepped.step();
        received = received || receiving.step();
        return sent && received && sending.test() && driven.test();
    }));
    EXPECT_EQ(*receiving.take(), numbers);
    EXPECT_EQ(*driven.take(), numbers);
}

TEST(AsyncOperations, both_ends_go_on_by_threads_that_only_poll) {
    Pair pair;
    const auto graphs = graphs_of_all_sizes(200);
    std::atomic<bool> received{false};
    std::thread receiver([&] {
        std::size_t count = 0;
        const auto next = [&](Receiving<Numbers>& one) { EXPECT_EQ(*one.take(), graphs[count++]); };
        std::deque<WhenReceived<Numbers, decltype(next)>> receiving;
        for (std::size_t i = 0; i < graphs.size(); ++i)
            receiving.emplace_back(*pair.receiver, ReceiveOptions{}, next);
        for (const Deadline deadline = Deadline::after(20s);
             count < graphs.size() && !deadline.passed();)
            (void)pair.receiver_context.lane().wait(Deadline::after(1s));
        EXPECT_EQ(count, graphs.size());
        received = true;
    });
    std::deque<Sending<Numbers>> sending;
    for (const Numbers& graph : graphs) sending.emplace_back(*pair.sender, graph);
    for (const Deadline deadline = Deadline::after(20s); !received && !deadline.passed();)
        (void)pair.sender_context.lane().wait(Deadline::after(10ms));
    receiver.join();
    for (Sending<Numbers>& one : sending) EXPECT_NO_THROW(one.wait());
}

// A range whose elements are made on the way: make(0), make(1) and so on.
template <class Make>
struct MadeRange {
    struct Iterator {
        using value_type = std::invoke_result_t<const Make&, int>;
        using difference_type = std::ptrdiff_t;
        value_type operator*() const { return of->make(at); }
        Iterator& operator++() {
            ++at;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return at != other.at; }
        const MadeRange* of;
        int at;
    };
    Iterator begin() const { return {this, 0}; }
    Iterator end() const { return {this, count}; }
    int count;
    Make make;
};
template <class Make>
MadeRange<Make> made(int count, Make make) {
    return {count, std::move(make)};
}

struct Named {
    std::string name;
    Named* next = nullptr;
};

TEST(SendEach, elements_arrive_one_by_one_without_their_container) {
    Pair pair;
    Named shared{"shared"};
    std::list<Named> elements;
    for (int i = 0; i < 3000; ++i) elements.push_back({"element " + std::to_string(i), &shared});
    elements.push_back({std::string(1'000'000, 'x')});
    std::thread receiver([&] {
        auto expected = elements.begin();
        for (Received<Named>& element : receive_each<Named>(*pair.receiver)) {
            ASSERT_NE(expected, elements.end());
            EXPECT_EQ(element->name, expected->name);
            EXPECT_EQ(element->next == nullptr, expected->next == nullptr);
            ++expected;
        }
        EXPECT_EQ(expected, elements.end());
        EXPECT_EQ(receive<std::string>(*pair.receiver)->size(), 3u);
    });
    const SendEachReport report = send_each(*pair.sender, elements);
    send(*pair.sender, std::string("end"));
    receiver.join();
    EXPECT_EQ(report.elements, elements.size());
    EXPECT_GT(report.objects, report.elements);
}

TEST(SendEach, an_empty_range_and_one_whose_elements_are_made_on_the_way) {
    Pair pair;
    send_each(*pair.sender, std::vector<int>{});
    send_each(*pair.sender, made(10, [](int i) { return i; }));
    auto none = receive_each<int>(*pair.receiver);
    EXPECT_FALSE(none.next());
    EXPECT_FALSE(none.next());
    int expected = 0;
    for (const Received<int>& one : receive_each<int>(*pair.receiver)) EXPECT_EQ(*one, expected++);
    EXPECT_EQ(expected, 10);
}

TEST(SendEach, an_element_that_fails_ends_the_series_on_both_sides_and_not_the_connection) {
    Pair pair;
    const auto elements = made(10, [](int i) {
        if (i == 5) throw Error(Errc::bad_pointer, "test", "five", "");
        return i;
    });
    EXPECT_EQ(error_code_of([&] { send_each(*pair.sender, elements); }), Errc::bad_pointer);
    auto each = receive_each<int>(*pair.receiver);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(**each.next(), i);
    EXPECT_EQ(error_code_of([&] { each.next(); }), Errc::flushed);
    send(*pair.sender, 7);
    EXPECT_EQ(*receive<int>(*pair.receiver), 7);
}

TEST(SendEach, an_element_of_another_type_is_refused_alone) {
    Pair pair;
    send(*pair.sender, std::string("x"));
    send_each(*pair.sender, std::vector<int>{1});
    auto each = receive_each<int>(*pair.receiver);
    EXPECT_EQ(error_code_of([&] { each.next(); }), Errc::type_mismatch);
    EXPECT_EQ(**each.next(), 1);
}

TEST(SendEach, a_receiver_that_takes_nothing_holds_the_sender_up_and_stays_bounded) {
    Pair pair;
    constexpr int kElements = 20'000;
    std::atomic<int> taken{0};
    std::thread sender([&] {
        send_each(*pair.sender, made(kElements, [&](int i) {
            ++taken;
            return std::string(100, static_cast<char>('a' + i % 26));
        }));
    });
    for (int before = -1; before != taken || before == 0;) {  // until it gets no further
        before = taken;
        for (int i = 0; i < 2000; ++i) (void)readable(*pair.receiver);
        std::this_thread::yield();
    }
    EXPECT_LT(taken, kElements);
    int received = 0;
    for (const Received<std::string>& one : receive_each<std::string>(*pair.receiver)) {
        ASSERT_EQ((*one)[0], static_cast<char>('a' + received % 26));
        ++received;
    }
    sender.join();
    EXPECT_EQ(received, kElements);
}

}  // namespace
}  // namespace verbatim
