// Windows that come back for a move of their connection, or for want of one.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "windows/objects_windows.hpp"

namespace verbatim {
namespace {

using objects::wire::kForGood;
using test::ask_back;
using test::in_time;
using test::kMany;
using test::limited_config;
using test::Numbers;
using test::Pair;

// Its sender is still at the end of the send when it is asked.
TEST(Windows, come_back_for_a_move_right_behind_a_graph) {
    Pair pair;
    const Numbers numbers(200'000, 1);
    constexpr int kMoves = 20;
    std::jthread peer([&] {
        for (int i = 0; i < kMoves; ++i) {
            send(*pair.sender, numbers, {in_time()});
            (void)pair.sender->receive_message(in_time());
        }
    });
    const std::array<Lane, 2> lanes{pair.receiver_context.make_lane(),
                                    pair.receiver_context.make_lane()};
    for (int i = 0; i < kMoves; ++i) {
        EXPECT_EQ(receive<Numbers>(*pair.receiver, {in_time()})->size(), numbers.size());
        EXPECT_NO_THROW(pair.receiver->move_to(lanes[static_cast<std::size_t>(i % 2)])) << i;
        pair.receiver->send_message(1, {}, {}, in_time());
    }
}

// Sends until the ring is full; then all windows are asked back for good.
void ask_back_behind_a_full_ring(Pair& pair) {
    const auto link = objects::object_link(*pair.sender);
    const std::byte data[1024]{};
    const Deadline full = in_time();
    for (const std::size_t bytes : {sizeof data, std::size_t{0}})
        while (pair.sender->try_send(0, {}, {data, bytes}) == Errc::ok)
            while (pair.sender->try_flush() == Errc::would_block) {
                ASSERT_FALSE(full.passed());
                (void)pair.sender->progress();
                (void)pair.receiver->progress();
            }
    const std::uint64_t activity = link->activity();
    const auto windows = static_cast<std::uint32_t>(link->outgoing().windows.count());
    for (std::uint32_t window = 0; window < windows; ++window)
        ASSERT_EQ(ask_back(*pair.receiver, window, kForGood), Errc::ok);
    for (const Deadline deadline = in_time(); link->activity() < activity + windows;) {
        ASSERT_FALSE(deadline.passed());
        (void)pair.receiver->try_flush();
        (void)pair.sender->handle_all();
    }
}

// Behind its beginning the receiver would take them for windows of that graph.
TEST(Windows, that_could_not_be_given_back_yet_come_before_the_next_graph) {
    Pair pair;
    const auto link = objects::object_link(*pair.sender);
    const Numbers numbers(kMany, 8);
    // What was asked may bring credit, so that there is room for the answer.
    for (const Deadline all = in_time(); !link->must_settle();) {
        ASSERT_FALSE(all.passed());
        pair.transfer(Numbers(kMany, 7));
        ASSERT_NO_FATAL_FAILURE(ask_back_behind_a_full_ring(pair));
        EXPECT_EQ(link->outgoing().may_begin(), !link->must_settle());
        if (link->must_settle()) break;
        for (Message message; pair.receiver->try_receive(message) == Errc::ok;) {
        }
    }
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    bool is_sent = false;
    for (const Deadline deadline = in_time(); !receiving.step() || !is_sent;) {
        ASSERT_FALSE(deadline.passed());
        Message message;
        (void)pair.receiver->try_receive(message);
        is_sent = is_sent || sending.step();
    }
    EXPECT_EQ(*receiving.take(), numbers);
}

// Their sender was not told, and gives them back for the move.
TEST(Windows, that_were_dropped_for_want_of_budget_hold_no_move_up) {
    constexpr std::size_t kAll = std::size_t{4} << 20;  // so each that is released is dropped
    Pair pair(test::small_config(), limited_config(kAll, kAll));
    const std::array<Lane, 2> lanes{pair.sender_context.make_lane(),
                                    pair.receiver_context.make_lane()};
    for (const bool is_sender : {true, false}) {
        pair.transfer(Numbers(200'000, 1));
        (void)readable(*pair.receiver);  // drops what was released
        Connection& mover = is_sender ? *pair.sender : *pair.receiver;
        Connection& other = is_sender ? *pair.receiver : *pair.sender;
        std::atomic<bool> has_moved{false};
        std::jthread peer([&] {
            while (!has_moved) (void)other.progress();
        });
        EXPECT_NO_THROW(mover.move_to(lanes[is_sender ? 0 : 1]));
        has_moved = true;
    }
    EXPECT_EQ(pair.transfer(Numbers(200'000, 2))->size(), 200'000u);
}

TEST(Windows, come_back_for_moves_of_a_sender_in_the_midst_of_its_graphs) {
    Pair pair;
    constexpr int kMoves = 10, kAhead = 6;
    const Numbers numbers(200'000, 3);
    std::atomic<bool> has_moved{false};
    std::jthread peer([&] {
        for (int i = 0; i < kMoves * kAhead; ++i)
            EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time()}), numbers) << i;
        while (!has_moved) (void)pair.receiver->progress();
    });
    const std::array<Lane, 2> lanes{pair.sender_context.make_lane(),
                                    pair.sender_context.make_lane()};
    for (int i = 0; i < kMoves; ++i) {
        std::deque<Sending<Numbers>> sendings;
        for (int n = 0; n < kAhead; ++n)
            sendings.emplace_back(*pair.sender, numbers, SendOptions{in_time()});
        EXPECT_NO_THROW(pair.sender->move_to(lanes[static_cast<std::size_t>(i % 2)])) << i;
        for (auto& sending : sendings) sending.wait();
    }
    has_moved = true;
}

// There is no moment without a graph on its way unless its sender makes one.
TEST(Windows, come_back_for_moves_while_graph_follows_graph) {
    Pair pair;
    constexpr int kMoves = 20;
    constexpr std::size_t kAhead = 4;
    std::atomic<bool> has_moved{false};
    std::jthread peer([&] {
        std::deque<std::pair<Numbers, std::optional<Sending<Numbers>>>> sendings;
        for (int next = 0; !has_moved; sendings.pop_front()) {
            for (; sendings.size() < kAhead; ++next) {
                auto& [numbers, sending] =
                    sendings.emplace_back(Numbers(200'000, next), std::nullopt);
                sending.emplace(*pair.sender, numbers, SendOptions{in_time()});
            }
            while (!sendings.front().second->test() && !has_moved) (void)pair.sender->progress();
        }
    });
    const std::array<Lane, 2> lanes{pair.receiver_context.make_lane(),
                                    pair.receiver_context.make_lane()};
    for (int i = 0; i < kMoves; ++i) {
        EXPECT_EQ(*receive<Numbers>(*pair.receiver, {in_time()}), Numbers(200'000, i));
        EXPECT_NO_THROW(pair.receiver->move_to(lanes[static_cast<std::size_t>(i % 2)])) << i;
    }
    has_moved = true;
}

// Nothing else would wake its sender then.
TEST(Windows, that_are_wanted_back_in_vain_hold_up_other_graphs_for_a_moment_only) {
    Pair pair;
    const Numbers numbers(kMany, 4);
    SendOperation<Numbers> unreceived(*pair.sender, numbers, {.channel = 1});
    const auto link = objects::object_link(*pair.sender);
    for (const Deadline deadline = in_time(); !link->outgoing().windows.is_lent(0);) {
        ASSERT_FALSE(deadline.passed());
        (void)unreceived.step();
        (void)readable(*pair.receiver);
    }
    ASSERT_EQ(ask_back(*pair.receiver, 0, kForGood), Errc::ok);
    for (const Deadline deadline = in_time(); !link->outgoing().must_settle();) {
        ASSERT_FALSE(deadline.passed());
        (void)pair.receiver->progress();
        (void)readable(*pair.sender);
    }
    std::jthread peer([&] { send(*pair.sender, numbers, {.deadline = in_time(), .channel = 2}); });
    EXPECT_EQ(*receive<Numbers>(*pair.receiver, {.deadline = in_time(), .channel = 2}), numbers);
}

}  // namespace
}  // namespace verbatim
