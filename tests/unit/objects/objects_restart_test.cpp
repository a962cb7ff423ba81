// Graphs whose walk begins anew because elements are met before the large array that owns them. It
// has sent a part of itself by then. And one that would begin anew for ever.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "core_fault.hpp"
#include "objects_image.hpp"
#include "objects_pair.hpp"

namespace verbatim {
namespace {

using test::Pair;

struct Branch {
    std::uint64_t number = 0;
    Branch* one = nullptr;
    Branch* other = nullptr;
    std::vector<Branch> kids;
    std::string name;
};

// It does not stand still: each walk finds another array, an element of it first.
struct Restless {
    std::vector<std::vector<Branch>> arrays;
    mutable std::size_t walks = 0;
};

}  // namespace

template <>
struct objects::Trait<Restless> {
    using Parts = List<>;
    using Edges = List<OwnedOne<Branch>, OwnedArray<Branch>>;
    static constexpr bool kPlain = false;
    static std::string spell() { return "restless"; }
    static TypeInfo info() { return Trait<std::vector<Branch>>::info(); }
    template <class S>
    static void pack(S& sender, const Restless& object, Slot) {
        const std::size_t walk = std::min(object.walks++, object.arrays.size() - 1);
        const std::vector<Branch>& now = object.arrays[walk];
        sender.template owned<Branch>(&now[1], 1);
        sender.template owned<Branch>(now.data(), now.size());
    }
};

namespace {

using Roots = std::vector<Branch*>;

// Single ones, some of which own long arrays of others. Pointers lead to any.
struct Wood {
    std::deque<Branch> own;
    Roots roots;
};
void fill(Branch& branch, std::mt19937& random) {
    branch.number = random();
    branch.name.assign(random() % 40, 's');
}
void grow(Wood& wood, std::mt19937& random, std::size_t count) {
    for (std::size_t left = count; left != 0;) {
        Branch& branch = wood.own.emplace_back();
        fill(branch, random);
        const std::size_t most = random() % 20 == 0 ? count : 5;
        branch.kids.resize(std::min<std::size_t>(left - 1, random() % most));
        for (Branch& kid : branch.kids) {
            fill(kid, random);
            if (random() % 10 == 0) kid.kids.resize(random() % 4);
        }
        left -= branch.kids.size() + 1;
    }
    const auto any = [&] {
        Branch& branch = wood.own[random() % wood.own.size()];
        return branch.kids.empty() || random() % 2 == 0
                   ? &branch
                   : &branch.kids[random() % branch.kids.size()];
    };
    for (Branch& branch : wood.own) {
        branch.one = any();
        branch.other = random() % 3 == 0 ? nullptr : any();
        for (Branch& kid : branch.kids)
            if (random() % 5 == 0) kid.one = any();
    }
    for (std::size_t i = 0; i <= random() % 10; ++i) wood.roots.push_back(any());
}

// Of all that is reached, with what is the same object.
std::uint64_t sum_of(const Roots& roots) {
    std::unordered_map<const Branch*, std::uint64_t> numbers;
    std::deque<const Branch*> left(roots.begin(), roots.end());
    std::uint64_t sum = 0;
    const auto add = [&sum](std::uint64_t value) {
        sum = (sum ^ value) * 0x9e3779b97f4a7c15 + (sum >> 29);
    };
    for (; !left.empty(); left.pop_front()) {
        const Branch* const branch = left.front();
        const auto [known, is_new] = numbers.try_emplace(branch, numbers.size());
        add(known->second);
        if (!is_new || branch == nullptr) continue;
        for (const std::uint64_t value :
             {branch->number, std::uint64_t{branch->name.size()}, branch->kids.size()})
            add(value);
        for (const char c : branch->name) add(static_cast<std::uint64_t>(c));
        for (const Branch& kid : branch->kids) left.push_back(&kid);
        left.push_back(branch->one);
        left.push_back(branch->other);
    }
    return sum;
}

TEST(Restart, of_random_graphs_leaves_both_sides_whole) {
    for (unsigned seed = 0; seed < 12; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Pair pair;
        std::mt19937 random(seed);
        Wood wood;
        grow(wood, random, 1 + random() % 20'000);
        const std::uint64_t sum = sum_of(wood.roots);
        for (int i = 0; i < 3; ++i) ASSERT_EQ(sum_of(*pair.transfer(wood.roots)), sum);
        ASSERT_EQ(sum_of(wood.roots), sum);
    }
}

TEST(Restart, of_an_element_before_its_large_array_changes_nothing_else) {
    Pair pair;
    for (const std::size_t count : {14'000u, 50'000u})
        for (unsigned seed = 0; seed < 10; ++seed) {
            SCOPED_TRACE(testing::Message() << count << " elements, seed " << seed);
            std::mt19937 random(seed);
            Branch owner;
            owner.kids.resize(count);
            for (std::size_t i = 0; i < count; i += 5)
                owner.kids[i].one = i % 10 == 0 ? &owner : &owner.kids[random() % count];
            const Roots roots{&owner.kids[random() % count], &owner, &owner.kids[3]};
            const std::uint64_t sum = sum_of(roots);
            ASSERT_EQ(sum_of(*pair.transfer(roots)), sum);
            ASSERT_EQ(sum_of(roots), sum);
        }
}

Restless make_restless(std::size_t arrays) {
    return {std::vector<std::vector<Branch>>(arrays, std::vector<Branch>(3))};
}

TEST(Restart, of_a_graph_that_does_not_stand_still_is_an_error_in_the_end) {
    constexpr std::size_t kMost = 64;
    const Restless enough = make_restless(kMost), too_much = make_restless(kMost + 1);
    test::Scan scan(test::test_arena());
    scan.run(enough);
    EXPECT_EQ(enough.walks, kMost + 1);
    Pair pair;
    const Error error = test::error_of([&] { send(*pair.sender, too_much); });
    EXPECT_EQ(error.code(), Errc::bad_pointer);
    test::says(error, "in ever new ways");
    EXPECT_EQ(too_much.walks, kMost + 1) << "no walk was begun behind the last restart";
    const Roots roots(1, nullptr);
    EXPECT_EQ(*pair.transfer(roots), roots);
}

}  // namespace
}  // namespace verbatim
