// Lives of received graphs: kept without a window, shared in parts, cloned, forwarded.
#include <gtest/gtest.h>

#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::lives {
namespace {

using test::Pair;

const std::string kLong = "a text that is too long to lie in its string";

struct Item {
    std::string name;
    std::vector<std::uint64_t> numbers;
    Item* partner = nullptr;
};
struct Order {
    std::vector<Item> items;
    Item* first = nullptr;
};

Order make_order(std::size_t items, std::size_t numbers = 3) {
    Order order;
    for (std::size_t i = 0; i < items; ++i)
        order.items.push_back({kLong, std::vector<std::uint64_t>(numbers, i), nullptr});
    for (std::size_t i = 0; i < items; ++i) order.items[i].partner = &order.items[items - 1 - i];
    order.first = &order.items[0];
    return order;
}
void expect_order(const Order& got, std::size_t items) {
    ASSERT_EQ(got.items.size(), items);
    for (std::size_t i = 0; i < items; ++i) {
        EXPECT_EQ(got.items[i].name, kLong);
        EXPECT_EQ(got.items[i].numbers.back(), i);
        EXPECT_EQ(got.items[i].partner, &got.items[items - 1 - i]);
    }
    EXPECT_EQ(got.first, &got.items[0]);
}
std::uint64_t used(Pair& pair) { return pair.receiver->receive_arena().usage().allocated_bytes; }

TEST(Lives, a_compacted_graph_holds_no_memory_of_windows) {
    Pair pair;
    { const auto warm = pair.transfer(make_order(10, 20'000)); }
    const std::uint64_t before = used(pair);
    std::optional<Received<Order>> small(pair.transfer(make_order(3)));
    std::optional<Received<Order>> large(pair.transfer(make_order(10, 20'000)));
    EXPECT_GT(used(pair), before);
    small->compact();
    large->compact();
    EXPECT_FALSE(pair.receiver->receive_arena().contains(small->get()));
    EXPECT_FALSE(pair.receiver->receive_arena().contains(large->get()->items[9].numbers.data()));
    expect_order(**small, 3);
    expect_order(**large, 10);
    // Its slots take the next graph: no more memory is needed.
    const std::uint64_t with_both = used(pair);
    { const auto next = pair.transfer(make_order(10, 20'000)); }
    EXPECT_EQ(used(pair), with_both);
    large->mutable_view().items[0].numbers[0] = 7;
    pair.sender.reset();
    pair.receiver.reset();
    expect_order(**small, 3);
}

TEST(Lives, parts_keep_the_graph_and_outlive_everything_else) {
    std::shared_ptr<const std::string> name;
    std::optional<Received<const Item>> item;
    {
        Pair pair;
        auto order = pair.transfer(make_order(4));
        name = order.share(&order->items[1].name);
        item.emplace(order.part(&order->items[2]));
    }
    EXPECT_EQ(*name, kLong);
    EXPECT_EQ(item->get()->partner->numbers.front(), 1u);
    std::thread([part = std::move(name)]() mutable { part.reset(); }).join();
    EXPECT_EQ(item->get()->name, kLong);
}

TEST(Lives, a_part_that_is_shared_stays_where_it_is_while_the_rest_is_compacted) {
    Pair pair;
    auto order = pair.transfer(make_order(4));
    const auto item = order.share(&order->items[2]);
    order.compact();
    EXPECT_NE(&order->items[2], item.get());
    EXPECT_EQ(item->partner->numbers.front(), 1u);
    expect_order(*order, 4);
}

TEST(Lives, one_of_many_is_promoted_and_the_rest_is_freed) {
    Pair pair;
    const std::uint64_t before = used(pair);
    std::vector<std::vector<std::string>> many(100, std::vector<std::string>(3, kLong));
    many[42].push_back("kept");
    std::optional<Received<std::vector<std::vector<std::string>>>> all(pair.transfer(many));
    auto one = all->promote(&(*all)->at(42));
    all.reset();
    EXPECT_EQ(used(pair), before);
    EXPECT_EQ(*one, many[42]);
    EXPECT_LT(one.report().object_bytes, 1000u);
    one.mutable_view()[3][0] = 'K';
    EXPECT_EQ(one->at(3), "Kept");
}

struct Base {
    std::string title;
    std::uint8_t flag = 1;
};
VERBATIM_DESCRIBE(Base, title, flag)
struct Owner : Base {
    std::unique_ptr<Owner> next;
    std::vector<std::unique_ptr<Owner>> children;
    std::shared_ptr<std::string> shared;
    std::map<std::string, std::vector<std::shared_ptr<std::string>>> index;
    std::unordered_multimap<int, std::string> words;
    std::variant<int, std::string> either;
    std::optional<std::list<std::string>> lines;
    std::array<std::string, 2> two;
    std::pair<std::pmr::string, std::forward_list<int>> both;
    std::deque<bool> bits;
    std::vector<bool> flags;
    std::uint32_t count = 0;
    std::unique_ptr<std::string[]> texts;
};
VERBATIM_DESCRIBE_DERIVED(Owner, (Base), next, children, shared, index, words, either, lines, two,
                          both, bits, flags, count, texts)
VERBATIM_COUNTED(Owner, (texts, count))

std::unique_ptr<Owner> make_owner() {
    auto owner = std::make_unique<Owner>();
    owner->title = kLong;
    owner->shared = std::make_shared<std::string>(kLong);
    owner->index["key"] = {owner->shared, owner->shared, nullptr};
    owner->words = {{1, "a"}, {1, kLong}};
    owner->either = kLong;
    owner->lines = {"x", kLong};
    owner->two = {"y", kLong};
    owner->both = {std::pmr::string(kLong), {1, 2, 3}};
    owner->bits = {true, false};
    owner->flags = {true, false, true};
    owner->count = 2;
    owner->texts = std::make_unique<std::string[]>(2);
    owner->texts[1] = kLong;
    return owner;
}

TEST(Lives, a_clone_is_made_of_ordinary_objects) {
    std::unique_ptr<Owner> clone;
    {
        Pair pair;
        const auto root = make_owner();
        root->next = make_owner();
        root->next->shared = root->shared;
        root->children.push_back(make_owner());
        clone = pair.transfer(*root).clone();
    }
    EXPECT_EQ(clone->title, kLong);
    EXPECT_EQ(clone->shared.use_count(), 4) << "itself, two of the index, and one of the next";
    EXPECT_EQ(clone->next->shared, clone->shared);
    EXPECT_EQ(clone->index.at("key")[1], clone->shared);
    EXPECT_EQ(clone->index.at("key")[2], nullptr);
    EXPECT_EQ(clone->words.count(1), 2u);
    EXPECT_EQ(std::get<std::string>(clone->either), kLong);
    EXPECT_EQ(*clone->lines, (std::list<std::string>{"x", kLong}));
    EXPECT_EQ(clone->two[1], kLong);
    EXPECT_EQ(std::string_view(clone->both.first), kLong);
    EXPECT_EQ(clone->both.second, (std::forward_list<int>{1, 2, 3}));
    EXPECT_EQ(clone->bits, (std::deque<bool>{true, false}));
    EXPECT_EQ(clone->flags, (std::vector<bool>{true, false, true}));
    EXPECT_EQ(clone->texts[1], kLong);
    EXPECT_EQ(clone->children.at(0)->title, kLong);
    // It grows, and ends, as objects do.
    clone->title += kLong;
    clone->children.push_back(make_owner());
    clone->index["another"];
    clone->words.emplace(2, "b");
    clone->both.first += kLong;
    clone->next.reset();
    EXPECT_EQ(clone->shared.use_count(), 3);
}

TEST(Lives, a_long_chain_of_owners_is_cloned_without_deep_calls) {
    Pair pair;
    auto root = std::make_unique<Owner>();
    for (int i = 0; i < 20'000; ++i) {
        auto next = std::make_unique<Owner>();
        next->next = std::move(root);
        root = std::move(next);
    }
    const auto free = [](std::unique_ptr<Owner> chain) {
        int length = 0;
        for (; chain; ++length) chain = std::move(chain->next);
        return length;
    };
    auto clone = pair.transfer(*root).clone();
    EXPECT_EQ(free(std::move(clone)), 20'001);
    free(std::move(root));
}

}  // namespace
}  // namespace verbatim::lives
