// Lists, trees, hash tables, deques and vectors of bool arrive as they were, through a loopback.
#include <deque>
#include <forward_list>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"

namespace verbatim::objects {
namespace {

// Of element `i`: texts are short or long.
template <class V>
V made(int i) {
    if constexpr (std::is_class_v<V>)
        return V(i % 3 == 0 ? std::to_string(i) : "a text that is long: " + std::to_string(i));
    else
        return static_cast<V>(i);
}
template <class Container>
void add(Container& container, int i) {
    using V = typename Container::value_type;
    if constexpr (requires { typename Container::mapped_type; })
        container.emplace(made<typename Container::key_type>(i),
                          made<typename Container::mapped_type>(-i));
    else if constexpr (requires { container.insert(made<V>(i)); })
        container.insert(made<V>(i));
    else if constexpr (requires { container.push_back(made<V>(i)); })
        container.push_back(made<V>(i));
    else
        container.push_front(made<V>(i));
}
template <class Container>
void finds_all(const Container& sent, const Container& got) {
    if constexpr (requires { typename Container::key_type; })
        for (const auto& element : sent) {
            const auto& key = [&]() -> const auto& {
                if constexpr (requires { typename Container::mapped_type; })
                    return element.first;
                else
                    return element;
            }
            ();
            ASSERT_NE(got.find(key), got.end());
            ASSERT_EQ(got.count(key), sent.count(key));
        }
}

template <class Container>
class ContainerTypes : public testing::Test {
  public:
    void arrives(const Container& sent, std::uint64_t flush_bytes) {
        loopback.flush_bytes = flush_bytes;
        const Container& got = loopback.send(sent);
        ASSERT_EQ(std::distance(got.begin(), got.end()), std::distance(sent.begin(), sent.end()));
        ASSERT_TRUE(std::equal(got.begin(), got.end(), sent.begin()));
        ASSERT_TRUE(got == sent);
        ASSERT_NO_FATAL_FAILURE(finds_all(sent, got));
        const Container copy(got);
        ASSERT_TRUE(copy == sent);
    }
    Loopback<Container> loopback;
};

namespace pmr = std::pmr;
using Kinds = testing::Types<
    std::list<int>, pmr::list<int>, std::list<std::string>, std::forward_list<int>,
    pmr::forward_list<pmr::string>, std::map<int, int>, std::map<std::string, std::string>,
    pmr::map<pmr::string, int>, std::map<int, int, std::greater<>>, std::multimap<int, std::string>,
    std::set<std::string>, pmr::set<double>, std::multiset<int>, pmr::multiset<pmr::string>,
    std::unordered_map<int, int>, std::unordered_map<std::string, std::string>,
    pmr::unordered_map<pmr::string, long>, std::unordered_multimap<int, int>,
    std::unordered_set<int>, pmr::unordered_set<pmr::string>, std::unordered_multiset<std::string>,
    std::deque<int>, pmr::deque<std::string>, std::deque<char>, std::vector<bool>,
    pmr::vector<bool>>;
TYPED_TEST_SUITE(ContainerTypes, Kinds);

TEST(ContainerLayouts, are_those_of_the_installed_library) {
    EXPECT_NO_THROW(verify_library_layout());
}

TYPED_TEST(ContainerTypes, arrive_with_any_number_of_elements) {
    for (const int count : {0, 1, 2, 3, 7, 8, 63, 64, 65, 128, 129, 1000, 20000}) {
        TypeParam sent;
        for (int i = 0; i < count; ++i) add(sent, i * 7919 % 20011);
        for (int i = 0; i < count; i += 10) add(sent, i);  // some are there already
        for (const std::uint64_t flush_bytes : {std::uint64_t{4096}, kSegmentBytes})
            ASSERT_NO_FATAL_FAILURE(this->arrives(sent, flush_bytes)) << count;
    }
}

}  // namespace
}  // namespace verbatim::objects
