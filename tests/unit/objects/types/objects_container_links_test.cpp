// Pointers into the elements of containers, containers in containers, and images that lie.
#include <array>
#include <cstring>
#include <deque>
#include <forward_list>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include <verbatim/driver/error.hpp>

#include "objects_loopback.hpp"

namespace verbatim::objects {
namespace {

struct Item {
    std::string name;
    Item* other = nullptr;
    long number = 0;
};

// The pointers come before or after the container in the walk.
template <class Container>
struct Indexed {
    std::vector<Item*> before;
    Container items;
    std::vector<Item*> after;
};

template <class Container>
void add(Container& items, int i) {
    const std::string name = "the name of item " + std::to_string(i);
    if constexpr (requires { typename Container::mapped_type; })
        items.emplace(name, Item{name, nullptr, i});
    else if constexpr (requires { items.push_back(Item{}); })
        items.push_back({name, nullptr, i});
    else
        items.push_front({name, nullptr, i});
}
template <class Element>
auto& item_of(Element& element) {
    if constexpr (requires { element.second; })
        return element.second;
    else
        return element;
}

template <class Container>
class PointersIntoContainers : public testing::Test {
  public:
    using Root = Indexed<Container>;
    void build(Root& root, int count) {
        for (int i = 0; i < count; ++i) add(root.items, i);
        Item* last = nullptr;
        for (auto& element : root.items) {
            Item& item = item_of(element);
            item.other = last;
            last = &item;
            root.before.push_back(&item);
            root.after.push_back(&item);
        }
        if (last != nullptr) item_of(*root.items.begin()).other = last;
    }
    void arrives(int count, std::uint64_t flush_bytes) {
        Root root;
        build(root, count);
        loopback.flush_bytes = flush_bytes;
        const Root& got = loopback.send(root);
        std::size_t i = 0;
        const Item* last = nullptr;
        for (const auto& element : got.items) {
            const Item& item = item_of(element);
            ASSERT_EQ(got.before.at(i), &item);
            ASSERT_EQ(got.after.at(i), &item);
            ASSERT_EQ(item.name, root.before[i]->name);
            if (i > 0) {
                ASSERT_EQ(item.other, last);
            }
            last = &item;
            ++i;
        }
        ASSERT_EQ(i, static_cast<std::size_t>(count));
        if (count > 0) {
            ASSERT_EQ(item_of(*got.items.begin()).other, last);
        }
    }
    Loopback<Root> loopback;
};

namespace pmr = std::pmr;
using Holders =
    testing::Types<std::list<Item>, pmr::list<Item>, std::forward_list<Item>, std::deque<Item>,
                   std::map<std::string, Item>, pmr::map<std::string, Item>,
                   std::multimap<std::string, Item>, std::unordered_map<std::string, Item>,
                   pmr::unordered_multimap<std::string, Item>>;
TYPED_TEST_SUITE(PointersIntoContainers, Holders);

TYPED_TEST(PointersIntoContainers, arrive_before_and_after_their_container) {
    for (const int count : {0, 1, 2, 64, 65, 200, 12000})
        for (const std::uint64_t flush_bytes : {std::uint64_t{4096}, kSegmentBytes})
            ASSERT_NO_FATAL_FAILURE(this->arrives(count, flush_bytes)) << count;
}

// Only an element leads to the container that it is in.
template <class Container>
struct Owner {
    Container items;
};
template <template <class> class Container>
struct Backward {
    long number = 0;
    Owner<Container<Backward>>* owner = nullptr;
    Backward* other = nullptr;
};
template <class T>
using ListOf = std::list<T>;
template <class T>
using ForwardListOf = std::forward_list<T>;
template <class T>
using DequeOf = std::deque<T>;
template <class T>
using MapOf = std::map<int, T>;
template <class T>
using TableOf = std::unordered_map<int, T>;

template <template <class> class Container>
void found_by_an_element() {
    using Element = Backward<Container>;
    Owner<Container<Element>> owner;
    for (int i = 0; i < 300; ++i) {
        const Element element{i, &owner, nullptr};
        if constexpr (requires {
                          owner.items.emplace(i, element);
                          typename Container<Element>::mapped_type;
                      })
            owner.items.emplace(i, element);
        else if constexpr (requires { owner.items.push_back(element); })
            owner.items.push_back(element);
        else
            owner.items.push_front(element);
    }
    Element& middle = item_of(*std::next(owner.items.begin(), 100));
    Element& late = item_of(*std::next(owner.items.begin(), 250));
    middle.other = &late;
    struct Root {
        Element* first;
    } root{&middle};
    for (const std::uint64_t flush_bytes : {std::uint64_t{4096}, kSegmentBytes}) {
        Loopback<Root> loopback;
        loopback.flush_bytes = flush_bytes;
        const Root& got = loopback.send(root);
        EXPECT_GE(loopback.restarts, 1u);
        const auto& items = got.first->owner->items;
        EXPECT_EQ(std::distance(items.begin(), items.end()), 300);
        EXPECT_EQ(got.first, &item_of(*std::next(items.begin(), 100)));
        EXPECT_EQ(got.first->other, &item_of(*std::next(items.begin(), 250)));
        EXPECT_EQ(got.first->number, middle.number);
        for (const auto& element : items) EXPECT_EQ(item_of(element).owner, got.first->owner);
    }
}

TEST(ContainersFoundByAnElement, list) { found_by_an_element<ListOf>(); }
TEST(ContainersFoundByAnElement, forward_list) { found_by_an_element<ForwardListOf>(); }
TEST(ContainersFoundByAnElement, deque) { found_by_an_element<DequeOf>(); }
TEST(ContainersFoundByAnElement, map) { found_by_an_element<MapOf>(); }
TEST(ContainersFoundByAnElement, unordered_map) { found_by_an_element<TableOf>(); }

struct KeyUser {
    std::map<std::string, int> map;
    const std::string* key = nullptr;
    const std::pair<const std::string, int>* pair = nullptr;
    const int* value = nullptr;
};

TEST(ContainerLinks, keys_pairs_and_values_may_be_pointed_to) {
    KeyUser root;
    for (int i = 0; i < 100; ++i) root.map.emplace("key that is long, " + std::to_string(i), i);
    const auto& pair = *root.map.find("key that is long, 50");
    root.key = &pair.first;
    root.pair = &pair;
    root.value = &pair.second;
    Loopback<KeyUser> loopback;
    const KeyUser& got = loopback.send(root);
    EXPECT_EQ(got.map, root.map);
    EXPECT_EQ(got.pair, &*got.map.find("key that is long, 50"));
    EXPECT_EQ(got.key, &got.pair->first);
    EXPECT_EQ(got.value, &got.pair->second);
}

using Nested = std::map<std::string, std::list<std::unordered_map<int, std::deque<std::set<int>>>>>;

TEST(ContainerLinks, containers_hold_containers) {
    Nested root;
    for (int i = 0; i < 130; ++i)
        for (int j = 0; j < i % 5; ++j) {
            auto& table = root["a name that is long " + std::to_string(i)].emplace_back();
            for (int k = 0; k < (i == 100 ? 500 : j); ++k)
                for (int l = 0; l < k % 7; ++l) table[k].push_back({k, l, i});
        }
    Loopback<Nested> loopback;
    for (const std::uint64_t flush_bytes : {std::uint64_t{4096}, kSegmentBytes}) {
        loopback.flush_bytes = flush_bytes;
        EXPECT_EQ(loopback.send(root), root);
    }
}

struct Family {
    std::string name;
    std::list<Family> children;
    std::map<int, Family> others;
    const Family* parent = nullptr;
};

void grow(Family& family, int depth) {
    for (int i = 0; depth > 0 && i < 3; ++i) {
        for (Family* next : {&family.children.emplace_back(), &family.others[i]}) {
            next->name = family.name + "/" + std::to_string(i);
            next->parent = &family;
            grow(*next, depth - 1);
        }
    }
}
void expect_same(const Family& a, const Family& b) {
    ASSERT_EQ(a.name, b.name);
    ASSERT_EQ(a.children.size(), b.children.size());
    ASSERT_EQ(a.others.size(), b.others.size());
    for (auto x = a.children.begin(), y = b.children.begin(); x != a.children.end(); ++x, ++y) {
        ASSERT_EQ(y->parent, &b);
        ASSERT_NO_FATAL_FAILURE(expect_same(*x, *y));
    }
    for (const auto& [key, value] : a.others) {
        ASSERT_EQ(b.others.at(key).parent, &b);
        ASSERT_NO_FATAL_FAILURE(expect_same(value, b.others.at(key)));
    }
}

TEST(ContainerLinks, types_that_hold_themselves_in_containers_arrive) {
    Family root{"a family with a long name", {}, {}, nullptr};
    grow(root, 4);
    Loopback<Family> loopback;
    loopback.flush_bytes = 4096;
    expect_same(root, loopback.send(root));
}

TEST(ContainerLinks, large_elements_arrive) {
    struct Large {
        std::string name;
        std::array<char, 300000> bytes{};
    };
    std::list<Large> root;
    for (int i = 0; i < 5; ++i) root.emplace_back().name = "large one " + std::to_string(i * 1000);
    Loopback<std::list<Large>> loopback;
    const auto& got = loopback.send(root);
    ASSERT_EQ(got.size(), root.size());
    for (auto x = got.begin(); const Large& sent : root) EXPECT_EQ(sent.name, (x++)->name);
}

TEST(ContainerLinks, a_table_that_is_mostly_empty_gets_fewer_buckets) {
    std::unordered_multimap<std::string, int> root;
    root.reserve(1'000'000);
    for (int i = 0; i < 1000; ++i) root.emplace("key " + std::to_string(i % 300), i);
    Loopback<decltype(root)> loopback;
    const auto& got = loopback.send(root);
    EXPECT_LT(got.bucket_count(), 5000u);
    EXPECT_EQ(got, root);
    for (int i = 0; i < 300; ++i)
        EXPECT_EQ(got.count("key " + std::to_string(i)), i < 100 ? 4u : 3u);
}

TEST(ContainerLinks, a_full_table_with_a_high_load_factor_arrives) {
    std::unordered_set<int> root;
    root.max_load_factor(50);
    for (int i = 0; i < 10000; ++i) root.insert(i * 64);
    Loopback<decltype(root)> loopback;
    const auto& got = loopback.send(root);
    EXPECT_EQ(got, root);
    EXPECT_LE(got.load_factor(), got.max_load_factor());
}

}  // namespace
}  // namespace verbatim::objects
