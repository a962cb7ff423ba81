// Operations: several at a time, channels and their order, what an operation that ends early
// leaves.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::Pair;
using Numbers = std::vector<int>;

constexpr std::size_t kMany = 1'000'000;  // in several windows
Deadline soon() { return Deadline::after(20s); }

// Whether it has its graph. A send does not wait for one.
template <class Operation>
bool has_its_graph(const Operation& operation, bool is_done) {
    if constexpr (requires { operation.has_begun(); }) return is_done || operation.has_begun();
    return true;
}

// Steps all of them until all are done. A receive waits until those before it have their graphs:
// one that comes between two steps goes to the next step.
template <class... Operations>
void finish(Operations&... operations) {
    std::vector<bool> done(sizeof...(operations));
    for (const Deadline deadline = soon();;) {
        std::size_t i = 0;
        bool all = true, in_turn = true;
        const auto step = [&](auto& operation) {
            if (in_turn && !done[i]) done[i] = operation.step();
            in_turn = in_turn && has_its_graph(operation, done[i]);
            all = done[i++] && all;
        };
        (step(operations), ...);
        if (all) return;
        if (deadline.passed()) throw Error(Errc::timeout, "test", "an operation does not end");
    }
}

TEST(Operations, several_graphs_are_under_way_at_once_in_both_directions) {
    Pair pair;
    const Numbers a(kMany, 1), b(kMany, 2), c(kMany, 3), small{4};
    SendOperation<Numbers> send_a(*pair.sender, a), send_b(*pair.sender, b),
        send_small(*pair.sender, small), send_c(*pair.receiver, c);
    ReceiveOperation<Numbers> take_a(*pair.receiver), take_b(*pair.receiver),
        take_small(*pair.receiver), take_c(*pair.sender);
    finish(send_a, send_b, send_small, send_c, take_a, take_b, take_small, take_c);
    EXPECT_TRUE(*take_a.take() == a);
    EXPECT_TRUE(*take_b.take() == b);
    EXPECT_EQ(*take_small.take(), small);
    EXPECT_TRUE(*take_c.take() == c);
}

TEST(Operations, graphs_of_one_channel_are_received_in_the_order_of_their_first_steps) {
    Pair pair;
    const Numbers large(kMany, 1), small{2};
    SendOperation<Numbers> first(*pair.sender, large);
    first.step();
    send(*pair.sender, small, {soon()});
    EXPECT_FALSE(readable(*pair.receiver)) << "the second one must wait for the first";
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    finish(first, receiving);
    EXPECT_EQ(*receiving.take(), large);
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {soon()}), small);
}

TEST(Operations, a_graph_of_one_channel_waits_for_none_of_another) {
    Pair pair;
    const Numbers large(kMany, 1), small{2};
    SendOperation<Numbers> first(*pair.sender, large, {.channel = 7});
    first.step();
    send(*pair.sender, small, {.deadline = soon(), .channel = 8});
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {soon(), 8}), small);
    EXPECT_FALSE(readable(*pair.receiver, 7));
    ReceiveOperation<Numbers> receiving(*pair.receiver, {soon(), 7});
    finish(first, receiving);
    EXPECT_EQ(*receiving.take(), large);
}

TEST(Operations, readable_and_try_receive_tell_of_a_graph_that_is_there) {
    Pair pair;
    EXPECT_FALSE(readable(*pair.receiver));
    EXPECT_FALSE(try_receive<Numbers>(*pair.receiver));
    const Numbers numbers{1, 2};
    send(*pair.sender, numbers, {soon()});
    // By a wire port it may still be on its way.
    for (const Deadline deadline = soon(); !readable(*pair.receiver) && !deadline.passed();) {
    }
    EXPECT_TRUE(readable(*pair.receiver));
    const auto graph = try_receive<Numbers>(*pair.receiver);
    ASSERT_TRUE(graph);
    EXPECT_EQ(**graph, numbers);
    EXPECT_FALSE(readable(*pair.receiver));
    pair.sender.reset();
    EXPECT_EQ(error_of([&] {
                  for (const Deadline deadline = soon(); !deadline.passed();)
                      if (readable(*pair.receiver)) return;
              }).code(),
              Errc::peer_lost);
}

TEST(Operations, a_receive_that_ends_early_takes_nothing_wherever_its_walk_has_come) {
    Pair pair;
    std::vector<std::string> strings;
    for (int i = 0; i < 40'000; ++i) strings.push_back(std::string(30, char('a' + i % 26)));
    using Graph = std::vector<std::string>;
    SendOperation<Graph> sending(*pair.sender, strings);
    std::optional<Received<Graph>> graph;
    bool sent = false;
    int abandoned = 0;
    for (const Deadline deadline = soon(); !sent || !graph;) {
        ASSERT_FALSE(deadline.passed());
        sent = sent || sending.step();
        ReceiveOperation<Graph> receiving(*pair.receiver);
        if (receiving.step())
            graph = receiving.take();
        else if (receiving.has_begun())
            ++abandoned;
    }
    EXPECT_GT(abandoned, 0);
    EXPECT_EQ(**graph, strings);
}

TEST(Operations, a_send_that_ends_early_is_forgotten_by_its_receiver) {
    Pair pair;
    using Graph = std::vector<Numbers>;
    const Graph graph(30, Numbers(30'000, 1)), next{{2}};
    std::optional<SendOperation<Graph>> sending(std::in_place, *pair.sender, graph);
    ReceiveOperation<Graph> receiving(*pair.receiver);
    for (const Deadline deadline = soon(); !receiving.has_begun();) {
        ASSERT_FALSE(deadline.passed());
        ASSERT_FALSE(sending->step());
        ASSERT_FALSE(receiving.step());
    }
    sending.reset();
    send(*pair.sender, next, {soon()});
    finish(receiving);
    EXPECT_EQ(*receiving.take(), next);
}

// Its flushes have many records, and are told by several messages, for which the ring has room by
// and by.
TEST(Operations, a_send_that_ends_early_within_a_flush_leaves_the_connection_as_it_was) {
    struct Crossing {
        Crossing* next = nullptr;
        Crossing* any = nullptr;
    };
    using Roots = std::vector<Crossing*>;
    std::mt19937 random(5);
    std::vector<std::unique_ptr<Crossing>> crossings(60'000);
    for (auto& crossing : crossings) crossing = std::make_unique<Crossing>();
    Roots roots;
    for (std::size_t i = 0; i < crossings.size(); ++i) {
        *crossings[i] = {crossings[(i + 1) % crossings.size()].get(),
                         crossings[random() % crossings.size()].get()};
        roots.push_back(crossings[i].get());
    }
    std::shuffle(roots.begin(), roots.end(), random);
    Config config = test::small_config();
    config.ring.bytes = 4096;
    Config sending_config = config;
    sending_config.arena.max_bytes = std::size_t{8} << 20;  // little may be held back
    Pair pair(sending_config, config);
    std::uint64_t records = 0;
    for (std::uint16_t steps = 1; steps < 400; steps = static_cast<std::uint16_t>(steps + 7)) {
        // Of a channel of its own: it may have arrived whole.
        std::optional<SendOperation<Roots>> sending(std::in_place, *pair.sender, roots,
                                                    SendOptions{.channel = steps});
        ReceiveOperation<Roots> receiving(*pair.receiver, {.channel = steps});
        bool is_sent = false;
        for (int i = 0; i < steps && !is_sent; ++i) {
            is_sent = sending->step();
            (void)receiving.step();
        }
        if (is_sent) records = sending->report().records;
        sending.reset();
        ASSERT_EQ(*pair.transfer(Numbers{steps}), Numbers{steps});
    }
    SendOperation<Roots> sending(*pair.sender, roots);
    ReceiveOperation<Roots> receiving(*pair.receiver);
    finish(sending, receiving);
    EXPECT_EQ(receiving.take()->size(), roots.size());
    EXPECT_GT(sending.report().records + records, 1000u);
}

TEST(Operations, a_second_walk_at_the_same_time_has_tables_of_its_own) {
    Pair pair;
    struct Crossing {
        Crossing* next = nullptr;
        int value = 0;
    };
    std::vector<Crossing> one(60'000), two(60'000);
    for (std::size_t i = 0; i < one.size(); ++i) {
        one[i] = {&one[(i * 7 + 1) % one.size()], static_cast<int>(i)};
        two[i] = {&two[(i * 11 + 3) % two.size()], -static_cast<int>(i)};
    }
    SendOperation<std::vector<Crossing>> send_one(*pair.sender, one),
        send_two(*pair.sender, two, {.channel = 1});
    ReceiveOperation<std::vector<Crossing>> take_one(*pair.receiver),
        take_two(*pair.receiver, {.channel = 1});
    finish(send_one, send_two, take_one, take_two);
    const auto first = take_one.take(), second = take_two.take();
    for (std::size_t i = 0; i < one.size(); ++i) {
        ASSERT_EQ((*first)[i].value, one[i].value);
        ASSERT_EQ((*first)[i].next - first->data(), one[i].next - one.data());
        ASSERT_EQ((*second)[i].value, two[i].value);
        ASSERT_EQ((*second)[i].next - second->data(), two[i].next - two.data());
    }
}

TEST(Operations, an_acyclic_graph_is_sent_without_a_look_at_what_was_met) {
    Pair pair;
    const std::vector<std::string> few(3, std::string(50, 'f')), many(30'000, std::string(50, 'm'));
    for (const auto* strings : {&few, &many}) {
        SendOperation<std::vector<std::string>> sending(*pair.sender, *strings, {.acyclic = true});
        ReceiveOperation<std::vector<std::string>> receiving(*pair.receiver);
        finish(sending, receiving);
        EXPECT_EQ(*receiving.take(), *strings);
    }
}

struct Crossing {
    std::size_t number = 0;
    Crossing* links[3] = {};
};
VERBATIM_DESCRIBE(Crossing, number, links)

// One ring, so that all are reached, and links to random ones.
std::vector<Crossing> crossings_at_random(std::size_t count) {
    std::vector<Crossing> all(count);
    std::mt19937_64 random(7);
    for (std::size_t i = 0; i < count; ++i)
        all[i] = {i, {&all[(i + 1) % count], &all[random() % count], &all[random() % count]}};
    return all;
}

// Most objects wait until nearly all others were met. While all of them are staged, places are
// written into the copies.
TEST(Operations, a_cyclic_graph_of_some_mebibytes_needs_no_records) {
    Pair pair;  // of whose arena a sixteenth is 16 MiB
    for (const bool is_small : {true, false}) {
        const std::vector<Crossing> all = crossings_at_random(is_small ? 300'000 : 700'000);
        SendOperation<Crossing> sending(*pair.sender, all[0]);
        ReceiveOperation<Crossing> receiving(*pair.receiver);
        finish(sending, receiving);
        EXPECT_EQ(sending.report().records == 0, is_small);
        const auto graph = receiving.take();
        const Crossing* there = graph.get();
        for (const Crossing& here : all) {
            for (int i = 0; i < 3; ++i)
                ASSERT_EQ(there->links[i]->number, here.links[i]->number) << here.number;
            there = there->links[0];
        }
        EXPECT_EQ(there, graph.get());
    }
}

// The array takes no staging. It is larger than a flush, so that one is due before anything was
// met.
TEST(Operations, a_cyclic_graph_behind_a_large_array_needs_no_records) {
    Pair pair;
    std::vector<Crossing> all = crossings_at_random(100'000);
    std::vector<Crossing*> roots;
    for (std::size_t i = 0; i < 50'000; ++i) roots.push_back(&all[2 * i]);
    std::shuffle(roots.begin(), roots.end(), std::mt19937_64(3));
    SendOperation<std::vector<Crossing*>> sending(*pair.sender, roots);
    ReceiveOperation<std::vector<Crossing*>> receiving(*pair.receiver);
    finish(sending, receiving);
    EXPECT_EQ(sending.report().records, 0u);
    const auto graph = receiving.take();
    for (std::size_t i = 0; i < roots.size(); ++i) {
        ASSERT_EQ((*graph)[i]->number, roots[i]->number);
        for (int link = 0; link < 3; ++link)
            ASSERT_EQ((*graph)[i]->links[link]->number, roots[i]->links[link]->number);
    }
}

TEST(Operations, a_cycle_that_was_called_acyclic_is_an_error_and_the_connection_goes_on) {
    struct Loop {
        Loop* next = nullptr;
    } loop;
    loop.next = &loop;
    Pair pair;
    const Error error =
        error_of([&] { send(*pair.sender, loop, {.deadline = soon(), .acyclic = true}); });
    EXPECT_EQ(error.code(), Errc::bad_pointer) << error.what();
    test::says(error, "Loop");
    const Numbers next{1};
    EXPECT_EQ(*pair.transfer(next), next);
}

// An order of the program, which fails where a graph is received.
struct Failing {
    static inline std::function<void()> fail;
    bool operator()(int a, int b) const {
        if (fail) fail();
        return a < b;
    }
};

TEST(Operations, a_comparator_that_throws_drops_the_graph_and_the_connection_goes_on) {
    Pair pair;
    const std::map<int, int, Failing> map{{1, 10}, {2, 20}, {3, 30}};
    Failing::fail = [] { throw std::range_error("no order"); };
    EXPECT_THROW(pair.transfer(map), std::range_error);
    Failing::fail = [] { throw std::bad_alloc(); };
    EXPECT_EQ(test::error_code_of([&] { pair.transfer(map); }), Errc::out_of_memory);
    Failing::fail = [] { throw 7; };
    EXPECT_THROW(pair.transfer(map), int);
    Failing::fail = nullptr;
    EXPECT_EQ(*pair.transfer(map), map);
}

TEST(Operations, a_comparator_that_throws_in_a_poll_fails_its_operation_alone) {
    const auto throws_int = [] { throw 7; };
    const auto throws_error = [] { throw std::range_error("no order"); };
    Pair pair;
    const std::map<int, int, Failing> map{{1, 10}, {2, 20}, {3, 30}};
    for (const auto& [fail, text] : std::vector<std::pair<std::function<void()>, const char*>>{
             {throws_int, "no std::exception"}, {throws_error, "no order"}}) {
        send(*pair.sender, map, {soon()});
        Failing::fail = fail;
        Receiving<std::map<int, int, Failing>> failed(*pair.receiver, {soon()});
        const Error error = error_of([&] { failed.wait(); });
        Failing::fail = nullptr;
        EXPECT_EQ(error.code(), Errc::corrupt_message);
        test::says(error, text);
        EXPECT_EQ(*pair.transfer(map), map);
    }
}

TEST(Operations, a_graph_is_taken_once_and_when_it_is_there) {
    Pair pair;
    Receiving<Numbers> receiving(*pair.receiver, {soon()});
    EXPECT_EQ(test::error_code_of([&] { receiving.take(); }), Errc::invalid_argument);
    send(*pair.sender, Numbers{7}, {soon()});
    receiving.wait();
    EXPECT_EQ(*receiving.take(), Numbers{7});
    EXPECT_EQ(test::error_code_of([&] { receiving.take(); }), Errc::invalid_argument);
}

// Both come with one poll where the receiver closes at once.
TEST(Operations, a_refusal_is_heard_though_its_receiver_has_closed) {
    Pair pair;
    const Numbers numbers(kMany, 1);
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<std::string> receiving(*pair.receiver);
    const Error refusal = error_of([&] {
        for (const Deadline deadline = soon(); !receiving.step() && !deadline.passed();)
            (void)sending.step();
    });
    ASSERT_EQ(refusal.code(), Errc::type_mismatch);
    pair.receiver.reset();
    for (const Deadline deadline = soon(); pair.sender->progress() == Errc::ok;)
        ASSERT_FALSE(deadline.passed());
    const Error heard = error_of([&] { (void)sending.step(); });
    EXPECT_EQ(heard.code(), Errc::type_mismatch) << heard.what();
}

// Not of its size: that may be far from its limit.
TEST(Operations, a_receiver_without_descriptors_says_so) {
    Pair pair;
    (void)pair.sender->arena().allocate(64);       // has its file
    pair.sender->send_message(1, {}, {}, soon());  // has its stream, where the port is tcp
    (void)pair.receiver->receive_message(soon());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    const int next = dup(0);
    close(next);
    const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const Error error = error_of([&] { pair.transfer(Numbers(kMany, 1)); });
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    test::says(error, "ulimit -n");
    EXPECT_EQ(pair.transfer(Numbers(kMany, 2))->size(), kMany);
}

TEST(Operations, of_a_parent_have_ended_in_its_forked_child) {
    Pair pair;
    const Numbers large(kMany, 1);
    Receiving<Numbers> receiving(*pair.receiver);
    Sending<Numbers> sending(*pair.sender, large);
    ASSERT_FALSE(receiving.test());
    constexpr Errc kRefused = Errc::permission_denied;
    EXPECT_EQ(softnic::test::status_in_child([&] {
                  if (error_of([&] { receiving.wait(); }).code() != kRefused) return 1;
                  if (!sending.test()) return 2;
                  if (error_of([&] { sending.wait(); }).code() != kRefused) return 3;
                  return 0;
              }),
              0);
    const Deadline limit = soon();
    while (!receiving.test() && !limit.passed()) (void)sending.test();
    EXPECT_EQ(*receiving.take(), large);
}

}  // namespace
}  // namespace verbatim
