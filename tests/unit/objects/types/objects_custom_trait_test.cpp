// A trait that a program adds: the one of docs/objects.md, for boost::container::small_vector.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"
#include "small_vector_trait.hpp"

namespace verbatim::objects {
namespace {

struct Node {
    std::string name;
    boost::container::small_vector<Node*, 3> next;
    boost::container::small_vector<std::string, 2> texts;
    boost::container::small_vector<double, 4> numbers;
};

TEST(CustomTrait, elements_arrive_wherever_they_lie) {
    Loopback<std::vector<Node>> loopback;
    loopback.flush_bytes = 4096;
    std::vector<Node> root(2'000);
    for (std::size_t i = 0; i < root.size(); ++i) {
        root[i].name = std::to_string(i);
        for (std::size_t j = 0; j < i % 9; ++j) {
            root[i].next.push_back(&root[i * j % root.size()]);
            root[i].texts.push_back("a text that is too long to lie in its string");
            root[i].numbers.push_back(0.5 * static_cast<double>(j));
        }
    }
    const auto& got = loopback.send(root);
    for (std::size_t i = 0; i < root.size(); ++i) {
        ASSERT_EQ(got[i].next.size(), i % 9);
        ASSERT_EQ(got[i].texts, root[i].texts);
        ASSERT_EQ(got[i].numbers, root[i].numbers);
        for (std::size_t j = 0; j < i % 9; ++j)
            ASSERT_EQ(got[i].next[j], &got[i * j % root.size()]);
    }
}

TEST(CustomTrait, a_size_that_the_graph_does_not_hold_is_refused) {
    using Vector = boost::container::small_vector<double, 4>;
    Loopback<Vector> loopback;
    write_at_start(loopback, offsetof(Trait<Vector>::Image, size), std::uint64_t{1} << 40);
    EXPECT_CORRUPT(loopback.send({1, 2, 3}), "more objects");
}

}  // namespace
}  // namespace verbatim::objects
