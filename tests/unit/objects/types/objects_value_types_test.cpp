// Tuples, pairs, variants and bitsets arrive as they were; bytes that are no value of theirs are
// refused.
#include <algorithm>
#include <array>
#include <bitset>
#include <chrono>
#include <complex>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

const std::string kLong = "a text that is too long to lie in its string";

TEST(ValueTypes, tuples_and_pairs_keep_their_elements) {
    using Root = std::tuple<int, std::string, std::pair<std::string, double>,
                            std::tuple<std::unique_ptr<long>, bool>, std::tuple<>>;
    Loopback<Root> loopback;
    Root root;
    std::get<0>(root) = 7;
    std::get<1>(root) = "short";
    std::get<2>(root) = {kLong, 2.5};
    std::get<0>(std::get<3>(root)) = std::make_unique<long>(9);
    std::get<1>(std::get<3>(root)) = true;
    const Root& got = loopback.send(root);
    EXPECT_EQ(std::get<0>(got), 7);
    EXPECT_EQ(std::get<1>(got), "short");
    EXPECT_EQ(std::get<2>(got), std::pair(kLong, 2.5));
    EXPECT_EQ(*std::get<0>(std::get<3>(got)), 9);
    EXPECT_TRUE(std::get<1>(std::get<3>(got)));
}

TEST(ValueTypes, many_tuples_arrive_in_fragments) {
    using Entry = std::tuple<std::uint16_t, std::string, std::optional<std::string>>;
    Loopback<std::vector<Entry>> loopback;
    loopback.flush_bytes = 4096;
    std::vector<Entry> root;
    for (int i = 0; i < 12'000; ++i)
        root.emplace_back(i, kLong + std::to_string(i),
                          i % 3 == 0 ? std::optional(kLong) : std::nullopt);
    EXPECT_EQ(loopback.send(root), root);
    EXPECT_EQ(loopback.send({}), std::vector<Entry>());
    root.resize(1);
    EXPECT_EQ(loopback.send(root), root);
}

// Members are found without a description whatever types they are of, by each compiler.
struct Undescribed {
    std::tuple<int, std::string, std::pair<double, int>> three;
    std::array<std::optional<std::string>, 3> optionals;
    std::optional<std::unique_ptr<int>> owner;
    std::variant<int, std::shared_ptr<int>, std::vector<std::string>> variant;
    std::map<std::string, std::vector<std::tuple<char, std::string, bool>>> map;
    std::unordered_map<std::string, std::shared_ptr<int>> table;
    std::deque<std::unique_ptr<std::string>> deque;
    std::list<std::list<int>> lists;
    std::set<std::tuple<int, std::string>> set;
    std::multimap<int, std::string> multimap;
    std::vector<bool> bits;
    std::bitset<100> bitset;
    std::complex<float> complex;
    std::chrono::system_clock::time_point when;
    std::weak_ptr<int> weak;
    std::string_view view;
    std::span<const int> span;
    const char* text = nullptr;
};

TEST(ValueTypes, members_of_all_types_are_found_without_a_description) {
    Loopback<Undescribed> loopback;
    Undescribed root;
    root.three = {1, kLong, {2.5, 3}};
    root.optionals[1] = kLong;
    root.owner = std::make_unique<int>(4);
    const auto shared = std::make_shared<int>(5);
    root.variant = root.table["five"] = shared;
    root.weak = shared;
    root.map["key"].emplace_back('c', kLong, true);
    root.deque.push_back(std::make_unique<std::string>(kLong));
    root.lists = {{1}, {2, 3}};
    root.set.emplace(6, "six");
    root.multimap = {{7, "a"}, {7, "b"}};
    root.bits = {true, false};
    root.bitset[99] = true;
    root.complex = {8, 9};
    root.when += std::chrono::seconds(10);
    root.view = kLong;
    root.text = "text";
    const std::vector<int> numbers{11, 12};
    root.span = numbers;
    const Undescribed& got = loopback.send(root);
    EXPECT_EQ(got.three, root.three);
    EXPECT_EQ(got.optionals, root.optionals);
    EXPECT_EQ(**got.owner, 4);
    EXPECT_EQ(std::get<1>(got.variant), got.table.at("five"));
    EXPECT_EQ(got.weak.lock(), got.table.at("five"));
    EXPECT_EQ(got.map, root.map);
    EXPECT_EQ(*got.deque.front(), kLong);
    EXPECT_EQ(got.lists, root.lists);
    EXPECT_EQ(got.set, root.set);
    EXPECT_EQ(got.multimap, root.multimap);
    EXPECT_EQ(got.bits, root.bits);
    EXPECT_EQ(got.bitset, root.bitset);
    EXPECT_EQ(got.complex, root.complex);
    EXPECT_EQ(got.when, root.when);
    EXPECT_EQ(got.view, kLong);
    EXPECT_TRUE(std::ranges::equal(got.span, numbers));
    EXPECT_STREQ(got.text, "text");
}

struct Nothing {};
struct IntoTuple {
    int* before = nullptr;
    std::vector<std::tuple<Nothing, int, std::string>> tuples;
    int* after = nullptr;
};

TEST(ValueTypes, pointers_lead_into_elements_of_tuples) {
    Loopback<IntoTuple> loopback;
    IntoTuple root;
    root.tuples.resize(3);
    root.before = root.after = &std::get<1>(root.tuples[1]);
    std::get<1>(root.tuples[1]) = 12;
    const IntoTuple& got = loopback.send(root);
    EXPECT_EQ(got.before, &std::get<1>(got.tuples[1]));
    EXPECT_EQ(got.after, got.before);
    EXPECT_EQ(*got.after, 12);
}

struct Tree;
using Value = std::variant<std::monostate, bool, std::string, std::vector<Tree>,
                           std::unique_ptr<Tree>, Tree*, std::string>;
struct Tree {
    Value value;
};

TEST(ValueTypes, variants_nest_and_refer) {
    Loopback<Tree> loopback;
    Tree root, leaf{true};
    auto& branches = root.value.emplace<3>();
    branches.push_back({});
    branches.push_back({});
    branches.back().value.emplace<2>(kLong);
    branches.push_back({std::make_unique<Tree>()});
    std::get<4>(branches.back().value)->value.emplace<6>("x");
    branches.resize(6);
    branches[3].value = &root;
    branches[4].value = &leaf;
    branches[5].value = &branches[1];
    const Tree& got = loopback.send(root);
    const auto& arrived = std::get<3>(got.value);
    ASSERT_EQ(arrived.size(), 6u);
    EXPECT_EQ(arrived[0].value.index(), 0u);
    EXPECT_EQ(std::get<2>(arrived[1].value), kLong);
    EXPECT_EQ(std::get<6>(std::get<4>(arrived[2].value)->value), "x");
    EXPECT_EQ(std::get<Tree*>(arrived[3].value), &got);
    EXPECT_TRUE(std::get<bool>(std::get<Tree*>(arrived[4].value)->value));
    EXPECT_EQ(std::get<Tree*>(arrived[5].value), &arrived[1]);
}

TEST(ValueTypes, many_variants_arrive_in_fragments) {
    using Either = std::variant<std::string, double, std::unique_ptr<int>>;
    Loopback<std::vector<Either>> loopback;
    loopback.flush_bytes = 4096;
    std::vector<Either> root;
    for (int i = 0; i < 12'000; ++i) {
        if (i % 3 == 0) root.emplace_back(kLong);
        if (i % 3 == 1) root.emplace_back(i + 0.5);
        if (i % 3 == 2) root.emplace_back(std::make_unique<int>(i));
    }
    const auto& got = loopback.send(root);
    ASSERT_EQ(got.size(), root.size());
    for (int i = 0; i < 12'000; ++i) {
        const Either& one = got[static_cast<std::size_t>(i)];
        ASSERT_EQ(one.index(), static_cast<std::size_t>(i % 3));
        if (i % 3 == 0) {
            ASSERT_EQ(std::get<0>(one), kLong);
        }
        if (i % 3 == 1) {
            ASSERT_EQ(std::get<1>(one), i + 0.5);
        }
        if (i % 3 == 2) {
            ASSERT_EQ(*std::get<2>(one), i);
        }
    }
}

struct IntoVariant {
    std::string* text = nullptr;
    std::vector<std::variant<int, std::string>> variants;
};

TEST(ValueTypes, a_pointer_leads_into_the_living_alternative) {
    Loopback<IntoVariant> loopback;
    IntoVariant root;
    root.variants = {1, kLong, 2};
    root.text = &std::get<std::string>(root.variants[1]);
    const IntoVariant& got = loopback.send(root);
    EXPECT_EQ(got.text, &std::get<std::string>(got.variants[1]));
    EXPECT_EQ(*got.text, kLong);
}

using CanBeValueless = std::variant<int, std::tuple<std::string>>;
using ValuelessImage = VariantImage<int, std::tuple<std::string>>;

TEST(ValueTypes, a_valueless_variant_stays_valueless) {
    CanBeValueless root(3);
    // As an exception leaves it.
    std::memset(reinterpret_cast<std::byte*>(&root) + ValuelessImage::kIndexAt, 255, 1);
    ASSERT_TRUE(root.valueless_by_exception());
    Loopback<CanBeValueless> loopback;
    EXPECT_TRUE(loopback.send(root).valueless_by_exception());
}

TEST(ValueTypes, an_index_of_no_alternative_is_refused) {
    using Variant = std::variant<int, std::string>;
    for (const unsigned char index : std::initializer_list<unsigned char>{2, 3, 127, 254, 255}) {
        Loopback<Variant> loopback;
        write_at_start(loopback, VariantImage<int, std::string>::kIndexAt, index);
        EXPECT_CORRUPT(loopback.send(Variant(7)), "alternative");
    }
}

TEST(ValueTypes, an_alternative_that_the_peer_claims_is_checked_as_one) {
    using Words = std::array<std::uint64_t, 4>;
    using Variant = std::variant<Words, bool, std::string>;
    using Image = VariantImage<Words, bool, std::string>;
    for (const unsigned char index : std::initializer_list<unsigned char>{1, 2}) {
        Loopback<Variant> loopback;
        write_at_start(loopback, Image::kIndexAt, index);
        EXPECT_CORRUPT(loopback.send(Variant(Words{7, 1 << 20, 7, 7})),
                       index == 1 ? "bool" : "more objects");
    }
}

struct Bits {
    std::bitset<1> one;
    std::bitset<64> word;
    std::bitset<70> more;
    std::bitset<10'000> many;
    std::vector<std::bitset<3>> several;
};

TEST(ValueTypes, bitsets_arrive) {
    Loopback<Bits> loopback;
    Bits root;
    root.one[0] = root.word[63] = root.more[69] = root.many[9'999] = true;
    root.several.assign(100, std::bitset<3>(5));
    const Bits& got = loopback.send(root);
    EXPECT_EQ(got.one, root.one);
    EXPECT_EQ(got.word, root.word);
    EXPECT_EQ(got.more, root.more);
    EXPECT_EQ(got.many, root.many);
    EXPECT_EQ(got.several, root.several);
}

TEST(ValueTypes, bits_behind_the_end_of_a_bitset_are_refused) {
    Loopback<std::bitset<70>> loopback;
    write_at_start(loopback, 8, std::uint64_t{1} << 6);
    EXPECT_CORRUPT(loopback.send({}), "bitset");
    Loopback<std::bitset<70>> good;
    write_at_start(good, 8, std::uint64_t{1} << 5);
    EXPECT_TRUE(good.send({})[69]);
}

}  // namespace
}  // namespace verbatim::objects
