// Roots that leave without a walk: composed messages and received graphs. What send() and
// send_async() promise holds for them, too.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include <verbatim/core/layers/layer_requests.hpp>

#include "async/poll_until.hpp"
#include "async/started.hpp"
#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::roots {

struct Sheet {
    std::pmr::vector<std::uint64_t> numbers;
    Sheet* next = nullptr;
};

}  // namespace verbatim::roots

VERBATIM_COMPOSED(verbatim::roots::Sheet);

namespace verbatim::roots {
namespace {

using namespace std::chrono_literals;
using test::Pair;
using test::poll_until;
using test::Started;
using Numbers = std::vector<std::uint64_t>;

constexpr std::size_t kSmall = 10, kLong = 300'000;  // in several segments

ComposedMessage<Sheet> compose_sheet(Pair& pair, std::size_t numbers, std::uint64_t value) {
    auto message = compose<Sheet>(*pair.sender);
    message->numbers.assign(numbers, value);
    message->next = message.make<Sheet>();
    message->next->numbers.assign(3, value + 1);
    return message;
}
void expect_sheet(const Sheet& got, std::size_t numbers, std::uint64_t value) {
    ASSERT_EQ(got.numbers.size(), numbers);
    EXPECT_EQ(got.numbers.front(), value);
    EXPECT_EQ(got.numbers.back(), value);
    ASSERT_NE(got.next, nullptr);
    EXPECT_EQ(got.next->numbers.at(2), value + 1);
}
Received<Numbers> received(Pair& pair, std::size_t numbers, std::uint64_t value) {
    const Numbers graph(numbers, value);
    Sending<Numbers> sending(*pair.sender, graph);
    Receiving<Numbers> receiving(*pair.receiver, {.forwardable = true});
    EXPECT_TRUE(poll_until(pair, [&] { return sending.test() && receiving.test(); }));
    return receiving.take();
}

TEST(Roots, of_all_kinds_are_under_way_at_once_and_arrive_in_order) {
    Pair pair;
    const auto small = compose_sheet(pair, kSmall, 1), large = compose_sheet(pair, kLong, 2);
    const auto kept = received(pair, kSmall, 3), long_kept = received(pair, kLong, 4);
    ASSERT_TRUE(kept.is_forwardable() && long_kept.is_forwardable());
    const Numbers walked(kLong, 5);
    Sending<Numbers> first(*pair.sender, walked);
    auto second = send_async(*pair.sender, small);
    auto third = send_async(*pair.sender, large);
    auto fourth = send_async(*pair.sender, kept);
    auto fifth = send_async(*pair.sender, long_kept);
    auto sixth = send_async(*pair.sender, small);
    Receiving<Numbers> one(*pair.receiver);
    Receiving<Sheet> two(*pair.receiver), three(*pair.receiver);
    Receiving<Numbers> four(*pair.receiver), five(*pair.receiver);
    Receiving<Sheet> six(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return six.test() && sixth.test(); }));
    EXPECT_EQ(*one.take(), walked);
    expect_sheet(*two.take(), kSmall, 1);
    expect_sheet(*three.take(), kLong, 2);
    EXPECT_EQ(*four.take(), Numbers(kSmall, 3));
    EXPECT_EQ(*five.take(), Numbers(kLong, 4));
    expect_sheet(*six.take(), kSmall, 1);
    EXPECT_TRUE(second.report().composed && third.report().composed);
    EXPECT_FALSE(fourth.report().composed || fifth.report().composed);
    EXPECT_EQ(fifth.report().objects, long_kept.report().objects);
}

TEST(Roots, of_a_message_that_lies_in_part_outside_are_walked) {
    Pair pair;
    auto message = compose_sheet(pair, kSmall, 1);
    Sheet outside;
    message->next->next = &outside;
    auto sending = send_async(*pair.sender, message);
    Receiving<Sheet> receiving(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test() && receiving.test(); }));
    EXPECT_FALSE(sending.report().composed);
    const auto got = receiving.take();
    expect_sheet(*got, kSmall, 1);
    EXPECT_NE(got->next->next, nullptr);
}

TEST(Roots, that_lost_their_image_are_walked) {
    Pair pair;
    auto graph = received(pair, kSmall, 3);
    graph.mutable_view()[0] = 9;
    ASSERT_FALSE(graph.is_forwardable());
    auto sending = send_async(*pair.sender, graph);
    Receiving<Numbers> receiving(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test() && receiving.test(); }));
    EXPECT_EQ(receiving.take()->front(), 9u);
}

// Its image has no marks of a walk to go by.
TEST(Roots, that_were_composed_are_walked_by_a_forwarder) {
    Pair pair;
    const auto message = compose_sheet(pair, kSmall, 1);
    auto composing = send_async(*pair.sender, message);
    Receiving<Sheet> first(*pair.receiver, {.forwardable = true});
    ASSERT_TRUE(poll_until(pair, [&] { return composing.test() && first.test(); }));
    const auto kept = first.take();
    EXPECT_FALSE(kept.is_forwardable());
    auto sending = send_async(*pair.sender, kept);
    Receiving<Sheet> second(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test() && second.test(); }));
    EXPECT_FALSE(sending.report().composed);
    expect_sheet(*second.take(), kSmall, 1);
}

// Whose parts are const.
struct Branch {
    std::uint64_t number = 0;
    Sheet sheet;
    Sheet* other = nullptr;
    Branch* next = nullptr;
};

TEST(Roots, that_are_parts_arrive_as_their_type) {
    Pair pair;
    Branch root{1, {{1, 2, 3}, nullptr}, nullptr, nullptr},
        last{2, {{4}, nullptr}, nullptr, nullptr};
    root.next = &last;
    last.next = &last;
    root.other = last.other = &last.sheet;
    auto whole = pair.transfer(root);
    const Received<const Branch> part = whole.part(whole->next);
    auto sending = send_async(*pair.sender, part);
    Receiving<Branch> receiving(*pair.receiver);
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test() && receiving.test(); }));
    const auto got = receiving.take();
    EXPECT_EQ(got->number, 2u);
    EXPECT_EQ(got->next, got.get());
    EXPECT_EQ(got->other, &got->sheet);
    EXPECT_EQ(got->sheet.numbers.at(0), 4u);
}

// Sends it, and says whether its first request has landed then. Later ones may be of the link's
// own.
template <class T>
bool is_delivered_at_once(Pair& pair, const T& root) {
    std::uint64_t before = 0;
    EXPECT_TRUE(poll_until(pair, [&] {
        before = LayerRequests::last(*pair.sender);
        return before != 0;
    }));
    EXPECT_GT(send(*pair.sender, root, {.until = Until::delivered}).object_bytes, 0u);
    return LayerRequests::landed(*pair.sender) > before;
}

TEST(Roots, are_delivered_when_their_send_waits_for_that) {
    Pair pair;
    const auto kept = received(pair, kSmall, 3);
    ASSERT_TRUE(kept.is_forwardable());
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(is_delivered_at_once(pair, compose_sheet(pair, kSmall, 1)));
        EXPECT_TRUE(is_delivered_at_once(pair, kept));
        expect_sheet(*receive<Sheet>(*pair.receiver), kSmall, 1);
        EXPECT_EQ(*receive<Numbers>(*pair.receiver), Numbers(kSmall, 3));
    }
    auto sending = send_async(*pair.sender, kept, {.until = Until::delivered});
    ASSERT_TRUE(poll_until(pair, [&] { return sending.test(); }));
    EXPECT_TRUE(sending.delivered());
}

Started send_both(Connection& connection, const ComposedMessage<Sheet>& message,
                  const Received<Numbers>& graph, std::vector<SendReport>& reports) {
    reports.push_back(co_await send_async(connection, message));
    reports.push_back(co_await send_async(connection, graph));
}

TEST(Roots, have_callbacks_and_are_awaited_by_coroutines) {
    Pair pair;
    const auto message = compose_sheet(pair, kLong, 1);
    const auto kept = received(pair, kLong, 2);
    int told = 0;
    const auto tell = [&told](const auto& done) { told += done.error() == nullptr; };
    auto first = send_async(*pair.sender, message, {}, tell);
    auto second = send_async(*pair.sender, kept, {}, tell);
    std::vector<SendReport> reports;
    send_both(*pair.sender, message, kept, reports);
    int got = 0;
    ASSERT_TRUE(poll_until(pair, [&] {
        if (got % 2 == 0 ? try_receive<Sheet>(*pair.receiver).has_value()
                         : try_receive<Numbers>(*pair.receiver).has_value())
            ++got;
        return got == 4;
    })) << got;
    ASSERT_TRUE(poll_until(pair, [&] { return reports.size() == 2 && told == 2; }));
    EXPECT_TRUE(reports[0].composed);
    EXPECT_FALSE(reports[1].composed);
}

TEST(Roots, whose_handles_end_early_are_forgotten_by_the_receiver) {
    Pair pair;
    const auto large = compose_sheet(pair, kLong, 1);
    const auto kept = received(pair, kLong, 2);
    for (int polls = 0; polls < 12; ++polls) {
        {
            auto first = send_async(*pair.sender, large);
            auto second = send_async(*pair.sender, kept);
            for (int i = 0; i < polls; ++i) {
                (void)pair.sender_context.lane().poll();
                (void)readable(*pair.receiver);
            }
        }
        // What was sent whole by then waits on the other channel.
        const auto channel = static_cast<std::uint16_t>(polls + 1);
        const Numbers next{7};
        Sending<Numbers> third(*pair.sender, next, {.channel = channel});
        Receiving<Numbers> receiving(*pair.receiver, {.channel = channel});
        ASSERT_TRUE(poll_until(pair, [&] { return receiving.test(); }));
        EXPECT_EQ(*receiving.take(), next);
    }
}

TEST(Roots, fail_when_their_peer_is_gone) {
    Pair pair;
    const auto large = compose_sheet(pair, kLong, 1);
    const auto kept = received(pair, kLong, 2);
    auto first = send_async(*pair.sender, large);
    auto second = send_async(*pair.sender, kept);
    pair.receiver.reset();
    ASSERT_TRUE(poll_until(pair, [&] { return first.test() && second.test(); }));
    ASSERT_NE(first.error(), nullptr);
    ASSERT_NE(second.error(), nullptr);
    EXPECT_EQ(scope_of(first.error()->code()), Scope::connection);
    EXPECT_EQ(scope_of(second.error()->code()), Scope::connection);
}

}  // namespace
}  // namespace verbatim::roots
