// Keys of containers that are classes of the program, and comparators and hash functions of its
// own: the receiver compares and hashes with what its type has.
#include <chrono>
#include <compare>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

struct Place {
    int x, y;
    auto operator<=>(const Place&) const = default;
};
struct Named {
    std::string name;
    Place place;
    bool is_old;
    auto operator<=>(const Named&) const = default;
};
// Not noexcept, so nodes keep what it returns; Quick's are made anew.
struct Hashes {
    std::size_t operator()(const Place& place) const {
        return static_cast<std::size_t>(place.x) * 31 + static_cast<std::size_t>(place.y);
    }
    std::size_t operator()(const Named& named) const {
        return std::hash<std::string>{}(named.name) ^ (*this)(named.place);
    }
};
struct Quick {
    std::size_t operator()(const Place& place) const noexcept { return Hashes{}(place); }
};
// Places of one column are one key.
struct SameColumn {
    bool operator()(const Place& a, const Place& b) const { return a.x == b.x; }
};
struct ColumnHash {
    std::size_t operator()(const Place& place) const { return static_cast<std::size_t>(place.x); }
};
struct ByName {
    bool operator()(const Named& a, const Named& b) const { return a.name > b.name; }
};

template <class T>
void arrives(const T& sent) {
    Loopback<T> loopback;
    ASSERT_TRUE(loopback.send(sent) == sent);
}

Named named(int i) {
    return {i % 3 == 0 ? std::to_string(i) : "a name that is long: " + std::to_string(i),
            {i, -i},
            i % 2 == 0};
}

TEST(KeyTypes, classes_of_the_program_are_keys_with_their_own_comparisons) {
    std::map<Place, int> places;
    std::set<Named> names;
    std::multimap<Named, std::string, ByName> by_name;
    for (int i = 0; i < 3000; ++i) {
        places[{i % 50, i}] = i;
        names.insert(named(i));
        by_name.emplace(named(i % 1000), std::to_string(i));
    }
    arrives(places);
    arrives(names);
    arrives(by_name);
}

TEST(KeyTypes, hash_functions_and_equalities_of_the_program_are_used) {
    std::unordered_map<Place, std::string, Hashes> kept;
    std::unordered_set<Place, Quick> quick;
    std::unordered_multiset<Named, Hashes> names;
    std::unordered_map<Place, int, ColumnHash, SameColumn> columns;
    for (int i = 0; i < 3000; ++i) {
        kept[{i, 7}] = std::to_string(i);
        quick.insert({i, i});
        names.insert(named(i % 700));
        columns[{i % 90, i}] = i;
    }
    ASSERT_EQ(columns.size(), 90u);
    arrives(kept);
    arrives(quick);
    arrives(names);
    Loopback<decltype(columns)> loopback;
    const auto& got = loopback.send(columns);
    for (int x = 0; x < 90; ++x) {
        const auto found = got.find({x, -1});
        ASSERT_NE(found, got.end());
        ASSERT_EQ(found->second, columns.find({x, -1})->second);
    }
}

TEST(KeyTypes, standard_values_are_keys_too) {
    std::map<std::chrono::milliseconds, int> times;
    std::set<std::variant<int, std::string>> either;
    std::set<int, decltype([](int a, int b) { return a % 100 > b % 100; })> lambda;
    for (int i = 0; i < 500; ++i) {
        times[std::chrono::milliseconds(i)] = i;
        i % 2 == 0 ? either.insert(i) : either.insert("the number " + std::to_string(i));
        lambda.insert(i);
    }
    arrives(times);
    arrives(either);
    arrives(lambda);
}

TEST(KeyTypes, whatever_a_peer_changes_in_them_is_refused_or_harmless) {
    const auto find_all = [](const auto& got) {
        for (const auto& element : got) (void)got.find(element);
    };
    const std::set<Named, ByName> ordered{named(1), named(2), named(3)};
    send_with_each_byte_changed(ordered, 48 + 3 * sizeof(TreeNode<Named>), find_all);
    const std::unordered_set<Named, Hashes> hashed{named(1), named(2), named(3)};
    send_with_each_byte_changed(hashed, 64 + 3 * sizeof(HashNode<Named, true>), find_all);
}

TEST(KeyTypes, peers_with_another_order_are_told_by_the_name) {
    using Down = std::set<Named, ByName>;
    EXPECT_EQ(TraitOf<std::set<Named>>::spell().find(" by "), std::string::npos);
    EXPECT_NE(TraitOf<Down>::spell().find(" by "), std::string::npos);
    EXPECT_NE(TraitOf<Down>::spell().find("ByName"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::objects
