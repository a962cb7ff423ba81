// Small graphs allocate nothing once the tables of their walks are there. A program of its own: it
// replaces the global operators.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "counted_allocations.hpp"
#include "objects_pair.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using test::Pair;

struct Node {
    Node* next = nullptr;
    std::uint64_t value = 0;
};

TEST(Allocations, sending_and_receiving_small_graphs_makes_none) {
    if (test::kSanitized) GTEST_SKIP() << "sanitizers allocate";
    Pair pair;
    std::vector<Node> ring(10);
    for (std::size_t i = 0; i < ring.size(); ++i) ring[i] = {&ring[(i + 1) % ring.size()], i};
    std::uint64_t sum = 0;
    const auto transfer = [&] {
        send(*pair.sender, ring[0]);
        const auto graph = receive<Node>(*pair.receiver);
        for (const Node* node = graph->next; node != graph.get(); node = node->next)
            sum += node->value;
    };
    for (int i = 0; i < 1000; ++i) transfer();
    const std::uint64_t before = test::allocations_of_this_thread;
    for (int i = 0; i < 1000; ++i) transfer();
    EXPECT_EQ(test::allocations_of_this_thread, before);
    EXPECT_EQ(sum, 2000u * 45u);
}

TEST(Allocations, asynchronous_operations_on_small_graphs_make_none) {
    if (test::kSanitized) GTEST_SKIP() << "sanitizers allocate";
    Pair pair;
    const Node node{nullptr, 1};
    std::uint64_t sum = 0;
    const auto transfer = [&](Until until) {
        const auto add = [&](Receiving<Node>& one) { sum += one.take()->value; };
        const auto receiving = receive_async<Node>(*pair.receiver, {}, add);
        Sending<Node> sending(*pair.sender, node, {.until = until});
        Receiving<Node> next(*pair.receiver);
        sending.wait();
        const auto again = send_async(*pair.sender, node, {}, [](Sending<Node>&) {});
        next.wait();
        sum += next.take()->value;
    };
    for (int i = 0; i < 500; ++i) transfer(i % 2 == 0 ? Until::reusable : Until::delivered);
    const std::uint64_t before = test::allocations_of_this_thread;
    for (int i = 0; i < 500; ++i) transfer(i % 2 == 0 ? Until::reusable : Until::delivered);
    EXPECT_EQ(test::allocations_of_this_thread, before);
    EXPECT_EQ(sum, 2000u);
}

}  // namespace
}  // namespace verbatim
