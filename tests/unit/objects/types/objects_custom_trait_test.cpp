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

// Pointers to the elements' type lie beside vectors whose elements are inside.
struct Beside {
    boost::container::small_vector<Beside*, 2> kin;
    boost::container::small_vector<int, 4> numbers;
    boost::container::small_vector<std::string, 2> texts;
    int* number = nullptr;
    const std::string* text = nullptr;
    std::string own = "own";
    Beside** of_kin = nullptr;
};

TEST(CustomTrait, elements_inside_lie_beside_pointers_to_their_type) {
    Loopback<std::vector<Beside>> loopback;
    loopback.flush_bytes = 4096;
    std::vector<Beside> root(300);
    for (std::size_t i = 0; i < root.size(); ++i) {
        Beside& one = root[i];
        for (std::size_t j = 0; j < i % 7; ++j) {
            one.kin.push_back(&root[(i + j) % root.size()]);
            one.numbers.push_back(static_cast<int>(i + j));
            one.texts.push_back(std::string(j * 9, 't'));
        }
        one.text = &root[i / 2].own;
        // Those outside of their vector may be led to.
        if (one.numbers.size() > 4) one.number = &one.numbers[2];
        if (one.kin.size() > 2) one.of_kin = &one.kin[1];
    }
    const auto& got = loopback.send(root);
    for (std::size_t i = 0; i < root.size(); ++i) {
        ASSERT_EQ(got[i].numbers, root[i].numbers);
        ASSERT_EQ(got[i].texts, root[i].texts);
        ASSERT_EQ(got[i].text, &got[i / 2].own);
        ASSERT_EQ(got[i].number, root[i].number == nullptr ? nullptr : &got[i].numbers[2]);
        ASSERT_EQ(got[i].of_kin, root[i].of_kin == nullptr ? nullptr : &got[i].kin[1]);
        for (std::size_t j = 0; j < i % 7; ++j)
            ASSERT_EQ(got[i].kin[j], &got[(i + j) % root.size()]);
    }
}

TEST(CustomTrait, pointers_to_elements_inside_are_refused) {
    Loopback<Beside> loopback;
    Beside root;
    root.numbers.push_back(1);
    root.number = root.numbers.data();
    EXPECT_THROW(loopback.send(root), Error);
}

TEST(CustomTrait, a_size_that_the_graph_does_not_hold_is_refused) {
    using Vector = boost::container::small_vector<double, 4>;
    Loopback<Vector> loopback;
    write_at_start(loopback, offsetof(Trait<Vector>::Image, size), std::uint64_t{1} << 40);
    EXPECT_CORRUPT(loopback.send({1, 2, 3}), "more objects");
}

}  // namespace
}  // namespace verbatim::objects
