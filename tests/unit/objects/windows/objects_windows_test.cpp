// Memory that a receiver lends for graphs: reuse, the budget of a context, limits, hostile peers.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <forward_list>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core_fault.hpp"
#include "objects_hand_made.hpp"
#include "objects_two_connections.hpp"
#include "windows/objects_windows.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::HandMadeSender;
using test::in_time;
using test::kMany;
using test::limited_config;
using test::Numbers;
using test::Pair;
using test::says;
using test::small_config;
using test::TwoConnections;
namespace wire = objects::wire;

std::uint64_t budget_of(Connection& connection) {
    return LayerAccess::shared_state<objects::Budget>(connection)->used();
}

TEST(Windows, of_released_graphs_are_lent_again_and_no_more_memory_is_taken) {
    Pair pair;
    const Numbers numbers(kMany, 7);
    const auto used = [&] { return pair.receiver->receive_arena().usage().allocated_bytes; };
    for (int i = 0; i < 5; ++i) pair.transfer(numbers);
    const auto before = used();
    for (int i = 0; i < 50; ++i) ASSERT_EQ((*pair.transfer(numbers))[kMany - 1], 7);
    EXPECT_LE(used(), before + (std::size_t{8} << 20));
}

TEST(Windows, of_graphs_that_come_one_by_one_are_lent_once) {
    Pair pair;
    const Numbers numbers(kMany, 7);
    const auto used = [&] { return pair.receiver->receive_arena().usage().allocated_bytes; };
    pair.transfer(numbers);
    const auto after_the_first = used();
    EXPECT_LE(after_the_first, kMany * sizeof(int) + (std::size_t{1} << 20));
    for (int i = 0; i < 10; ++i) pair.transfer(numbers);
    EXPECT_EQ(used(), after_the_first);
}

struct Page {
    std::array<char, 4000> text{};
    Page* next = nullptr;
};

// Fresh memory costs the kernel more time than the graph takes to send.
TEST(Windows, take_half_as_much_again_as_a_large_graph_at_most) {
    for (const std::size_t count : {4'300u, 6'000u, 8'600u}) {
        std::vector<Page> pages(count);
        for (std::size_t i = 1; i < count; ++i) pages[i - 1].next = &pages[i];
        Pair fresh;
        const auto graph = fresh.transfer(pages[0]);
        ASSERT_EQ(graph.report().objects, count);
        const std::size_t lent = fresh.receiver->receive_arena().usage().allocated_bytes;
        EXPECT_LE(lent, count * sizeof(Page) * 3 / 2 + (std::size_t{1} << 20)) << count;
    }
}

TEST(Windows, of_a_message_that_is_composed_go_back_when_the_receiver_asks_for_them) {
    Pair pair;
    pair.transfer(Numbers(kMany, 7));
    std::optional<objects::ComposePlace> place;
    for (const Deadline deadline = in_time(); !place || place->address() == 0;) {
        ASSERT_FALSE(deadline.passed());
        (void)(readable(*pair.sender) || readable(*pair.receiver));
        place.emplace(*pair.sender, wire::kSlotBytes);
        if (!SetAside::kIsUsable) break;
    }
    if (SetAside::kIsUsable) {
        EXPECT_GE(place->address(), SetAside::kFirst);
        EXPECT_LT(place->address(), SetAside::kEnd);
    }
    for (std::uint32_t window = 0; window < 8; ++window)
        ASSERT_EQ(test::ask_back(*pair.receiver, window, 0), Errc::ok);
    const auto link = objects::object_link(*pair.sender);
    const std::uint64_t activity = link->activity();
    for (const Deadline deadline = in_time(); link->activity() < activity + 8;) {
        ASSERT_FALSE(deadline.passed());
        (void)readable(*pair.sender);
    }
    EXPECT_EQ(place->take(*link).count, 0u);
    pair.transfer(Numbers(kMany, 8));
}

// What tells of a window in several pieces is longer, and may find no room where the next one does.
TEST(Windows, are_told_in_order_whatever_finds_no_room_meanwhile) {
    Config config = small_config();
    config.objects.window_max = std::size_t{4} << 20;
    config.ring.send_blocks = 16;
    Pair pair(small_config(), config);
    const std::vector<Numbers> graph(800, Numbers(30'000, 5));  // 96 MB
    for (int i = 0; i < 8; ++i) {
        auto sent = std::async(std::launch::async, [&] { send(*pair.sender, graph, {in_time()}); });
        const auto received = receive<std::vector<Numbers>>(*pair.receiver, {in_time()});
        EXPECT_EQ(received->size(), graph.size());
        sent.get();
    }
}

TEST(Windows, all_memory_comes_back_when_connections_and_graphs_are_gone) {
    Pair pair;
    const auto used = [&] { return pair.receiver_context.arena().usage().allocated_bytes; };
    std::shared_ptr<Arena> arena = pair.receiver->receive_arena_ptr();
    {
        const auto kept = pair.transfer(Numbers(kMany, 7));
        const auto small = pair.transfer(Numbers{1});
        pair.sender.reset();
        pair.receiver.reset();
        EXPECT_EQ((*kept)[kMany - 1], 7);
        EXPECT_EQ((*small)[0], 1);
    }
    for (const Deadline deadline = in_time(); arena->usage().allocated_bytes != 0;) {
        ASSERT_FALSE(deadline.passed()) << arena->usage().allocated_bytes << ", " << used();
        pair.receiver_context.lane().poll();
    }
}

TEST(Windows, graphs_are_released_by_other_threads) {
    Pair pair;
    const Numbers numbers(300'000, 7);
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; ++i)
        threads.emplace_back([graph = std::make_shared<Received<Numbers>>(
                                  pair.transfer(numbers))]() mutable { graph.reset(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(*pair.transfer(numbers), numbers);
}

TEST(Windows, a_graph_over_the_limit_is_refused_on_both_sides_by_the_name_of_the_limit) {
    Pair pair(small_config(), limited_config(std::size_t{8} << 20, std::size_t{2} << 20));
    for (const bool is_one_object : {true, false}) {
        const std::vector<Numbers> graph(is_one_object ? 1 : 4000,
                                         Numbers(is_one_object ? kMany : 1000, 1));
        std::optional<Error> sent, received;
        SendOperation<std::vector<Numbers>> sending(*pair.sender, graph);
        ReceiveOperation<std::vector<Numbers>> receiving(*pair.receiver);
        for (const Deadline deadline = in_time(); !sent || !received;) {
            ASSERT_FALSE(deadline.passed());
            try {
                ASSERT_FALSE(!sent && sending.step());
            } catch (const Error& error) {
                sent = error;
            }
            try {
                ASSERT_FALSE(!received && receiving.step());
            } catch (const Error& error) {
                received = error;
            }
        }
        for (const Error* error : {&*sent, &*received}) {
            EXPECT_EQ(error->code(), Errc::graph_too_large);
            says(*error, "max_graph_bytes");
        }
    }
    const Numbers next{1};
    EXPECT_EQ(*pair.transfer(next), next);
}

TEST(Windows, half_arrived_graphs_do_not_block_each_other_where_the_budget_holds_but_one) {
    constexpr std::size_t kGraph = std::size_t{4} << 20;
    TwoConnections two(limited_config(kGraph + (std::size_t{1} << 20), kGraph));
    const std::vector<Numbers> graph(30, Numbers(30'000, 5));  // 3.4 MiB
    SendOperation<std::vector<Numbers>> one(*two.sender, graph), other(*two.other_sender, graph);
    ReceiveOperation<std::vector<Numbers>> take_one(*two.receiver), take_other(*two.other_receiver);
    bool done[4]{};
    for (const Deadline deadline = in_time(); !(done[0] && done[1] && done[2] && done[3]);) {
        ASSERT_FALSE(deadline.passed()) << done[0] << done[1] << done[2] << done[3];
        done[0] = done[0] || one.step();
        done[1] = done[1] || other.step();
        done[2] = done[2] || take_one.step();
        done[3] = done[3] || take_other.step();
        ASSERT_LE(budget_of(*two.receiver), kGraph + (std::size_t{1} << 20));
    }
    EXPECT_EQ(*take_one.take(), graph);
    EXPECT_EQ(*take_other.take(), graph);
}

TEST(Windows, that_one_connection_does_not_use_go_to_another) {
    constexpr std::size_t kGraph = std::size_t{2} << 20;
    TwoConnections two(limited_config(3 * kGraph, kGraph));
    const Numbers numbers(400'000, 1);
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ((*two.transfer(numbers)).size(), numbers.size());
        SendOperation<Numbers> sending(*two.other_sender, numbers);
        ReceiveOperation<Numbers> receiving(*two.other_receiver);
        bool sent = false, received = false;
        for (const Deadline deadline = in_time(); !sent || !received;) {
            ASSERT_FALSE(deadline.passed());
            sent = sent || sending.step();
            received = received || receiving.step();
            ASSERT_LE(budget_of(*two.receiver), 3 * kGraph);
        }
        EXPECT_EQ(*receiving.take(), numbers);
    }
}

TEST(Windows, for_a_large_object_are_populated_a_part_with_each_step) {
    Pair pair;
    const Numbers numbers(std::size_t{16} << 20, 3);  // 64 MiB, side by side
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    const auto populated = [&] { return pair.receiver->receive_arena().usage().populated_bytes; };
    std::size_t most = 0;
    bool sent = false, received = false;
    for (const Deadline deadline = in_time(); !sent || !received;) {
        ASSERT_FALSE(deadline.passed());
        sent = sent || sending.step();
        const std::size_t before = populated();
        received = received || receiving.step();
        most = std::max(most, populated() - before);
    }
    EXPECT_EQ(*receiving.take(), numbers);
    EXPECT_GT(most, 0u);
    EXPECT_LE(most, 2 * pair.receiver->config().receive_arena.segment_bytes);
}

TEST(Windows, of_both_sides_come_back_before_a_connection_moves) {
    Pair pair;
    const Numbers numbers(kMany, 1);
    const auto kept = pair.transfer(numbers);  // lies in windows
    std::atomic<bool> moved{false};
    std::optional<Received<Numbers>> answer;
    std::jthread peer([&] {
        send(*pair.sender, numbers, {in_time()});
        answer = receive<Numbers>(*pair.sender, {in_time()});
        while (!moved) (void)pair.sender->progress();
        send(*pair.sender, numbers, {in_time()});
    });
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time()}), numbers);
    send(*pair.receiver, numbers, {in_time()});
    const Lane lane = pair.receiver_context.make_lane();
    EXPECT_NO_THROW(pair.receiver->move_to(lane));
    moved = true;
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time()}), numbers);
    peer.join();
    EXPECT_EQ(*kept, numbers);
    EXPECT_EQ(**answer, numbers);
}

// Memory for it must be populated first, which only calls of the program do.
TEST(Windows, for_a_message_that_is_composed_are_lent_when_there_is_memory) {
    if (!SetAside::kIsUsable)
        GTEST_SKIP() << "this sanitizer has other uses for the addresses; all other builds run it";
    Pair pair;
    { const objects::ComposePlace wish(*pair.sender, wire::kSlotBytes); }
    const auto link = objects::object_link(*pair.receiver);
    for (const Deadline deadline = in_time(); link->activity() == 0;) {
        ASSERT_FALSE(deadline.passed());
        (void)pair.receiver->progress();
    }
    std::uint64_t address = 0;
    for (const Deadline deadline = in_time(); address == 0;) {
        ASSERT_FALSE(deadline.passed());
        (void)readable(*pair.receiver);
        (void)readable(*pair.sender);
        address = objects::ComposePlace(*pair.sender, wire::kSlotBytes).address();
    }
}

// The next ones could come in once these are received: it is no fault of the peer.
TEST(Windows, of_graphs_that_nobody_receives_starve_others_with_an_error_that_says_so) {
    Config config = limited_config(std::size_t{8} << 20, std::size_t{4} << 20);
    config.objects.window_wait = 50ms;
    Pair pair(small_config(), config);
    const Numbers numbers(kMany / 2, 3);
    std::jthread peer([&] {
        std::deque<Sending<Numbers>> sendings;
        for (std::uint16_t channel = 0; channel < 4; ++channel)
            sendings.emplace_back(*pair.sender, numbers, SendOptions{.channel = channel});
        for (Sending<Numbers>& sending : sendings) sending.wait();
    });
    const Error error = error_of([&] { (void)receive<Numbers>(*pair.receiver, {in_time(), 3}); });
    EXPECT_EQ(error.code(), Errc::out_of_memory);
    says(error, "max_graph_bytes");
    for (std::uint16_t channel = 0; channel < 4; ++channel)
        EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time(), channel}), numbers);
}

// One that only its lane's polls drive, here or in a thread that sleeps.
TEST(Windows, of_an_idle_connection_go_back_where_another_one_lacks_memory) {
    for (const bool in_a_thread : {false, true}) {
        Config config = small_config();
        config.receive_arena.max_bytes = std::size_t{8} << 20;
        config.objects.window_wait = 20s;
        Pair pair(small_config(), config);
        (void)pair.transfer(Numbers(kMany, 1));  // leaves windows of 4 MB and more with the peer
        Lane lane = pair.receiver_context.make_lane();
        Listener listener = pair.receiver_context.listen("127.0.0.1:0");
        std::atomic<bool> received{false};
        const std::jthread idle([&] {
            for (const Deadline deadline = in_time(); in_a_thread && !received;) {
                (void)pair.receiver_context.lane().wait(Deadline::after(100ms));
                if (deadline.passed()) break;
            }
        });
        std::jthread receiving([&] {
            Connection other = listener.accept(lane, in_time());
            std::vector<Numbers> graph;
            Receiving<std::vector<Numbers>> receive(other, {in_time()});
            while (!receive.test())
                if (!in_a_thread) (void)pair.receiver_context.lane().poll();
            EXPECT_EQ(receive.error(), nullptr);
            received = true;
        });
        Connection other =
            pair.sender_context.connect("127.0.0.1:" + std::to_string(listener.port()));
        EXPECT_NO_THROW(send(other, std::vector<Numbers>(60, Numbers(28'000, 5)), {in_time()}));
    }
}

TEST(Windows, the_budget_is_free_again_when_connections_end_at_any_step) {
    const Numbers numbers(kMany, 3);
    for (int steps = 0; steps < 12; ++steps) {
        TwoConnections two;
        std::optional<SendOperation<Numbers>> sending(std::in_place, *two.sender, numbers);
        std::optional<ReceiveOperation<Numbers>> receiving(std::in_place, *two.receiver);
        for (int i = 0; i < steps; ++i) {
            (void)sending->step();
            (void)receiving->step();
        }
        sending.reset();
        receiving.reset();
        two.receiver.reset();
        EXPECT_EQ(budget_of(*two.other_receiver), 0u) << steps;
    }
}

TEST(Windows, a_graph_that_finds_no_room_waits_until_others_are_released) {
    Config config = small_config();
    config.receive_arena.max_bytes = std::size_t{8} << 20;
    config.objects.window_wait = 20s;
    Pair pair(small_config(), config);
    const Numbers numbers(kMany, 1);  // 4 MB
    std::optional<Received<Numbers>> kept(pair.transfer(numbers));
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    for (int i = 0; i < 100; ++i) {
        ASSERT_FALSE(sending.step());
        ASSERT_FALSE(receiving.step());
    }
    kept.reset();
    bool sent = false, received = false;
    for (const Deadline deadline = in_time(); !sent || !received;) {
        ASSERT_FALSE(deadline.passed());
        sent = sent || sending.step();
        received = received || receiving.step();
    }
    EXPECT_EQ(*receiving.take(), numbers);
}

TEST(Windows, a_receive_that_waits_for_room_notices_a_release_by_another_thread) {
    Config config = small_config();
    config.receive_arena.max_bytes = std::size_t{8} << 20;
    config.objects.window_wait = 20s;
    Pair pair(small_config(), config);
    const Numbers numbers(kMany, 1);
    std::optional<Received<Numbers>> kept(pair.transfer(numbers));
    const std::jthread other([&] {
        SendOperation<Numbers> sending(*pair.sender, numbers);
        const Deadline deadline = in_time();
        for (unsigned round = 0; !sending.step() && !deadline.passed(); ++round)
            if (round == 20'000) kept.reset();  // the receiver sleeps by then
    });
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time()}), numbers);
}

TEST(Windows, received_graphs_that_hold_the_arena_for_too_long_are_an_error_of_the_next) {
    Config config = small_config();
    config.receive_arena.max_bytes = std::size_t{8} << 20;
    config.objects.window_wait = 50ms;
    Pair pair(small_config(), config);
    const Numbers numbers(kMany, 1);
    const auto kept = pair.transfer(numbers);
    const Error error = error_of([&] { pair.transfer(numbers); });
    EXPECT_EQ(error.code(), Errc::graph_too_large);
    says(error, "receive_arena");
}

// The number of each window that was told, in that order; all of them are lent at once.
std::vector<std::uint32_t> told_windows(Pair& pair, std::size_t count) {
    HandMadeSender peer(*pair.sender);
    for (std::uint64_t id = 1; id <= count; ++id) {
        while (peer.begin<Numbers>(id) == Errc::would_block) (void)readable(*pair.receiver);
        while (peer.insist(id, 1) == Errc::would_block) (void)readable(*pair.receiver);
    }
    std::vector<std::uint32_t> told;
    for (const Deadline deadline = in_time(); told.size() < count && !deadline.passed();) {
        (void)readable(*pair.receiver);
        Message message;
        while (pair.sender->try_receive(message) == Errc::ok) {
            std::span<const std::byte> payload = message.payload();
            wire::Lend head{};
            if (message.kind() == wire::kLend && wire::parse(payload, head))
                told.push_back(head.window);
        }
    }
    return told;
}

TEST(Windows, are_told_in_the_order_of_their_numbers_though_queue_and_ring_are_full) {
    Config narrow = small_config();
    narrow.ring.bytes = 4096;
    narrow.ring.send_blocks = 16;
    Pair pair(narrow, narrow);
    const std::vector<std::uint32_t> told = told_windows(pair, 60);
    ASSERT_GE(told.size(), 60u);
    for (std::uint32_t i = 0; i < told.size(); ++i) ASSERT_EQ(told[i], i);
}

TEST(Windows, hostile_mode_looks_at_private_copies_only) {
    Config config = small_config();
    config.objects.hostile = true;
    Pair pair(small_config(), config);
    std::vector<std::string> strings;
    for (int i = 0; i < 50'000; ++i)
        strings.push_back(std::string(static_cast<std::size_t>(i % 60), char('a' + i % 26)));
    const auto graph = pair.transfer(strings);
    EXPECT_EQ(*graph, strings);
    EXPECT_FALSE(pair.receiver->receive_arena().contains(graph.get()));
    EXPECT_FALSE(pair.receiver->receive_arena().contains(graph->data()));
    const auto small = pair.transfer(Numbers{1});
    EXPECT_FALSE(pair.receiver->receive_arena().contains(small.get()));
    for (int i = 0; i < 10; ++i) EXPECT_EQ(*pair.transfer(strings), strings);
}

// Large arrays of both kinds: some leave as they lie and are changed later, some in excerpts.
// In `hostile` mode their copies lie in no arena that would bound them.
TEST(Windows, small_graphs_that_nobody_receives_are_held_up_to_the_limit_of_one_graph) {
    constexpr std::size_t kGraph = std::size_t{1} << 20, kBytes = 8'000;
    Config config = limited_config(std::size_t{4} << 20, kGraph);
    config.objects.hostile = true;
    Pair pair(small_config(), config);
    const auto& arrivals = objects::object_link(*pair.receiver)->incoming().arrivals();
    const std::string text(kBytes, 'x');
    int sent = 0;
    // Looks in vain, once the receiver has all that it keeps: the ring is full.
    for (; sent < 400; ++sent) {
        SendOperation<std::string> sending(*pair.sender, text);
        int in_vain = 0;
        for (const Deadline deadline = in_time(); in_vain < 100 && !sending.step();) {
            (void)pair.receiver_context.lane().poll();
            in_vain += arrivals.eager_bytes() >= kGraph ? 1 : 0;
            ASSERT_FALSE(deadline.passed());
        }
        if (in_vain == 100) break;
    }
    EXPECT_LT(sent, 400) << "there is no back-pressure";
    EXPECT_GE(arrivals.waiting(), kGraph / (kBytes + 500));
    EXPECT_LT(arrivals.eager_bytes(), kGraph + kBytes + 500);
    for (int i = 0; i < sent; ++i)
        ASSERT_EQ(receive<std::string>(*pair.receiver, {in_time()})->size(), kBytes) << i;
    EXPECT_EQ(arrivals.eager_bytes(), 0u);
    EXPECT_EQ(*pair.transfer(text), text);
}

// The last word of the peer came with what is held: no other message moves it on.
TEST(Windows, a_receive_is_told_of_its_graph_behind_small_ones_that_found_no_room) {
    constexpr std::size_t kGraph = std::size_t{256} << 10, kBytes = 8'000;
    Pair pair(small_config(), limited_config(std::size_t{4} << 20, kGraph));
    int told = 0;
    auto awaited = receive_async<std::string>(
        *pair.receiver, {.channel = 1},
        [&told](const Receiving<std::string>& done) { told += done.error() == nullptr; });
    const std::string text(kBytes, 'x');
    constexpr int kMore = 40;  // than find room
    int sent = 0, received = 0;
    const auto poll = [&] {
        (void)pair.sender_context.lane().poll();
        (void)pair.receiver_context.lane().poll();
    };
    std::deque<Sending<std::string>> sending;
    for (; sent < kMore; ++sent) sending.emplace_back(*pair.sender, text);
    sending.emplace_back(*pair.sender, text, SendOptions{.channel = 1});
    for (int i = 0; i < 1000; ++i) poll();
    EXPECT_EQ(told, 0);
    for (const Deadline deadline = in_time(); told == 0 && !deadline.passed(); poll())
        if (received < sent && try_receive<std::string>(*pair.receiver)) ++received;
    EXPECT_EQ(told, 1);
    EXPECT_EQ(*awaited.take(), text);
}

TEST(Windows, hostile_mode_copies_large_arrays_when_all_of_them_is_there) {
    struct Node {
        Node* next = nullptr;
        Node* other = nullptr;
        int value = 0;
    };
    struct Arrays {
        std::vector<std::optional<std::forward_list<int>>> before;
        std::vector<Node> nodes;
        std::vector<std::optional<std::forward_list<int>>> behind;
    };
    constexpr std::size_t kCount = 40'000;
    Arrays arrays;
    arrays.nodes.resize(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        const int number = static_cast<int>(i);
        arrays.nodes[i] = {&arrays.nodes[i * 7 % kCount], &arrays.nodes[kCount - 1 - i], number};
        arrays.before.emplace_back(std::forward_list<int>{number, 1});
        arrays.behind.emplace_back(std::forward_list<int>{number});
    }
    Config config = small_config();
    config.objects.hostile = true;
    Pair pair(small_config(), config);
    for (int round = 0; round < 3; ++round) {
        const auto got = pair.transfer(arrays);
        EXPECT_EQ(got->before, arrays.before);
        EXPECT_EQ(got->behind, arrays.behind);
        for (std::size_t i = 0; i < kCount; ++i) {
            ASSERT_EQ(got->nodes[i].value, static_cast<int>(i));
            ASSERT_EQ(got->nodes[i].next, &got->nodes[i * 7 % kCount]);
            ASSERT_EQ(got->nodes[i].other, &got->nodes[kCount - 1 - i]);
        }
    }
}

}  // namespace
}  // namespace verbatim
