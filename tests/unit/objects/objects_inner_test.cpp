// Pointers to the inside of objects, met in any order before and after the objects themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "objects_image.hpp"

namespace verbatim {
namespace {

using test::image_of;
using test::test_arena;

struct Leaf {
    double value = 0;  // where the leaf begins
    std::array<double, 2> more{};
    Leaf* next = nullptr;
};
struct Branch {
    Leaf first;  // where the branch begins
    std::uint64_t number = 0;
    Leaf second;
};
using Table = std::vector<Branch>;

// One of these is set.
struct Reference {
    double* number = nullptr;
    std::array<double, 2>* pair = nullptr;
    Leaf* leaf = nullptr;
    Branch* branch = nullptr;
    Table* table = nullptr;
};

// Against a map: the last object that starts at an offset or before it, among single objects, small
// and long arrays, gaps, and objects that are larger than a search goes back.
TEST(Inner, placement_finds_the_object_at_each_offset) {
    struct Large {
        std::array<std::byte, 10'000> bytes;
    };
    struct Medium {
        std::array<std::byte, 1000> bytes;
    };
    const std::array<const objects::TypeKey*, 4> types{
        &objects::kTypeKey<Leaf>, &objects::kTypeKey<std::uint64_t>, &objects::kTypeKey<Large>,
        &objects::kTypeKey<Medium>};
    std::minstd_rand random(20261125);
    for (int graph = 0; graph < 200; ++graph) {
        objects::Placement placement;
        placement.begin(types);
        std::map<std::uint64_t, objects::Placement::Object> expected;
        std::uint64_t end = 0;
        for (int left = 100; left != 0; --left) {
            const auto number = static_cast<std::uint16_t>(random() % 10 == 0 ? 3 + random() % 2
                                                                              : 1 + random() % 2);
            const std::uint64_t count = random() % 3 == 0    ? 1
                                        : random() % 30 == 0 ? 3000
                                                             : random() % 9;
            if (random() % 10 == 0) end += random() % 9000;
            end = (end + 15) / 16 * 16;
            placement.place(end, count, number);
            if (count != 0) expected[end] = {end, count, number};
            end += count * types[number - 1u]->bytes;
        }
        for (int left = 300; left != 0; --left) {
            const std::uint64_t offset = random() % (end + 5000);
            const auto behind = expected.upper_bound(offset);
            const auto found = placement.find(offset);
            if (behind == expected.begin()) {
                EXPECT_EQ(found.number, 0);
                continue;
            }
            const auto& [start, object] = *std::prev(behind);
            const bool reaches = offset < start + object.count * types[object.number - 1u]->bytes;
            if (!reaches) continue;  // then it may be any object before
            EXPECT_EQ(found.offset, start);
            EXPECT_EQ(found.count, object.count);
            EXPECT_EQ(found.number, object.number);
        }
    }
}

TEST(Inner, pointer_to_the_first_member_of_an_element_before_its_array_and_the_element) {
    struct Root {
        double* value;
        std::vector<Leaf> leaves;
        Leaf* first;
    };
    Root root{nullptr, std::vector<Leaf>(3), nullptr};
    root.leaves[0].value = 1.5;
    root.value = &root.leaves[0].value;
    root.first = &root.leaves[0];
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    EXPECT_EQ(r->value, &r->leaves[0].value);
    EXPECT_EQ(r->first, &r->leaves[0]);
    EXPECT_EQ(*r->value, 1.5);
}

// Objects in the arena, on the heap and in tables; every number of them has a value of its own.
class Objects {
  public:
    explicit Objects(std::mt19937& random) : random_(random) {
        for (std::size_t i = 0; i < 6; ++i) {
            tables_.push_back(std::make_unique<Table>(1 + random_() % 4));
            leaves_.push_back(std::make_unique<Leaf>());
            arena_leaves_.push_back(test_arena().make<Leaf>());
            arena_branches_.push_back(test_arena().make<Branch>());
        }
        for (auto& table : tables_)
            for (Branch& branch : *table) add(branch);
        for (Branch* branch : arena_branches_) add(*branch);
        for (auto& leaf : leaves_) add(*leaf);
        for (Leaf* leaf : arena_leaves_) add(*leaf);
        for (Leaf* leaf : all_leaves_)
            if (random_() % 3 != 0) leaf->next = all_leaves_[random_() % all_leaves_.size()];
    }
    ~Objects() {
        for (Leaf* leaf : arena_leaves_) test_arena().destroy(leaf);
        for (Branch* branch : arena_branches_) test_arena().destroy(branch);
    }
    std::vector<Reference> references(std::size_t count) {
        std::vector<Reference> some(count);
        for (Reference& reference : some) {
            Leaf& leaf = *all_leaves_[random_() % all_leaves_.size()];
            switch (random_() % 6) {
                case 0:
                    reference.number = &leaf.value;
                    break;
                case 1:
                    reference.number = &leaf.more[random_() % 2];
                    break;
                case 2:
                    reference.pair = &leaf.more;
                    break;
                case 3:
                    reference.leaf = &leaf;
                    break;
                case 4:
                    reference.branch = all_branches_[random_() % all_branches_.size()];
                    break;
                default:
                    reference.table = tables_[random_() % tables_.size()].get();
            }
        }
        // Nothing may be reached through its members alone.
        for (Branch* branch : arena_branches_) some.push_back({.branch = branch});
        for (auto& table : tables_) some.push_back({.table = table.get()});
        for (Leaf* leaf : arena_leaves_) some.push_back({.leaf = leaf});
        for (auto& leaf : leaves_) some.push_back({.leaf = leaf.get()});
        return some;
    }

  private:
    void add(Leaf& leaf) {
        leaf = {next_, {next_ + 1, next_ + 2}, nullptr};
        next_ += 3;
        all_leaves_.push_back(&leaf);
    }
    void add(Branch& branch) {
        add(branch.first);
        add(branch.second);
        branch.number = all_branches_.size();
        all_branches_.push_back(&branch);
    }
    std::mt19937& random_;
    std::vector<std::unique_ptr<Table>> tables_;
    std::vector<std::unique_ptr<Leaf>> leaves_;
    std::vector<Leaf*> arena_leaves_, all_leaves_;
    std::vector<Branch*> arena_branches_, all_branches_;
    double next_ = 1;
};

// Every number has a value of its own, so equal values must have one place each.
class Places {
  public:
    void see(const double& number) {
        const auto [at, is_new] = places_.emplace(number, &number);
        EXPECT_EQ(at->second, &number) << number << " arrived twice";
    }
    void see(const Leaf& leaf) {
        see(leaf.value);
        see(leaf.more[0]), see(leaf.more[1]);
    }
    void see(const Branch& branch) { see(branch.first), see(branch.second); }

  private:
    std::map<double, const double*> places_;
};

void expect_equal(const Leaf& a, const Leaf& b) {
    EXPECT_EQ(a.value, b.value);
    EXPECT_EQ(a.more, b.more);
    ASSERT_EQ(a.next == nullptr, b.next == nullptr);
    if (a.next != nullptr) {
        EXPECT_EQ(a.next->value, b.next->value);
    }
}
void expect_equal(const Branch& a, const Branch& b) {
    EXPECT_EQ(a.number, b.number);
    expect_equal(a.first, b.first), expect_equal(a.second, b.second);
}

void expect_equal(const Reference& a, const Reference& b, Places& places) {
    if (a.number != nullptr) {
        EXPECT_EQ(*a.number, *b.number);
        places.see(*b.number);
    } else if (a.pair != nullptr) {
        EXPECT_EQ(*a.pair, *b.pair);
        places.see((*b.pair)[0]), places.see((*b.pair)[1]);
    } else if (a.leaf != nullptr) {
        expect_equal(*a.leaf, *b.leaf);
        places.see(*b.leaf);
    } else if (a.branch != nullptr) {
        expect_equal(*a.branch, *b.branch);
        places.see(*b.branch);
    } else {
        ASSERT_EQ(a.table->size(), b.table->size());
        for (std::size_t i = 0; i < a.table->size(); ++i) {
            expect_equal((*a.table)[i], (*b.table)[i]);
            places.see((*b.table)[i]);
        }
    }
}

TEST(Inner, pointers_of_every_type_in_any_order_lead_into_the_same_objects) {
    for (unsigned round = 0; round < 400; ++round) {
        std::mt19937 random(round);
        Objects objects(random);
        std::vector<Reference> sent = objects.references(1 + random() % 40);
        std::shuffle(sent.begin(), sent.end(), random);
        SCOPED_TRACE(round);
        auto image = image_of(sent);
        const auto* received = image.mend<std::vector<Reference>>();
        ASSERT_EQ(received->size(), sent.size());
        Places places;
        for (std::size_t i = 0; i < sent.size(); ++i) expect_equal(sent[i], (*received)[i], places);
        if (testing::Test::HasFailure()) return;
    }
}

// Objects of a pool share granules of 16 bytes where their size is no multiple of that. The pool
// itself is not sent.
using Triple = std::array<std::uint32_t, 3>;
template <std::size_t Words>
struct Pooled {
    Pooled* next = nullptr;
    std::uint32_t* number = nullptr;  // of any of them
    std::uint16_t* small = nullptr;   // in a pool of its own: they share 4 bytes
    Triple* triple = nullptr;         // likewise, of 12 bytes
    std::array<std::uint32_t, Words> numbers{};
};

template <std::size_t Words>
void expect_pool_to_arrive(std::size_t count) {
    using Member = Pooled<Words>;
    std::minstd_rand random(static_cast<unsigned>(count));
    std::vector<Member> pool(count);
    std::vector<std::uint16_t> smalls(count);
    std::vector<Triple> triples(count);
    std::vector<Member*> order;
    for (std::size_t i = 0; i < count; ++i) {
        smalls[i] = static_cast<std::uint16_t>(i);
        pool[i].numbers.fill(static_cast<std::uint32_t>(i));
        pool[i].next = &pool[random() % count];
        pool[i].number = &pool[random() % count].numbers[random() % Words];
        if (i % 3 == 0) pool[i].small = &smalls[random() % count];
        triples[i].fill(static_cast<std::uint32_t>(i));
        pool[i].triple = &triples[random() % count];
        order.push_back(&pool[i]);
    }
    std::shuffle(order.begin(), order.end(), random);
    auto image = image_of(order);
    const auto& got = *image.template mend<std::vector<Member*>>();
    ASSERT_EQ(got.size(), count);
    std::map<const Member*, const Member*> sent;
    for (std::size_t i = 0; i < count; ++i) sent[got[i]] = order[i];
    ASSERT_EQ(sent.size(), count);
    std::map<const std::uint16_t*, const std::uint16_t*> small;
    for (const auto& [node, original] : sent) {
        EXPECT_EQ(node->numbers, original->numbers);
        EXPECT_EQ(sent.at(node->next), original->next);
        EXPECT_EQ(*node->number, *original->number);
        EXPECT_EQ(*node->triple, *original->triple);
        ASSERT_EQ(node->small == nullptr, original->small == nullptr);
        if (node->small == nullptr) continue;
        EXPECT_EQ(*node->small, *original->small);
        EXPECT_EQ(small.try_emplace(node->small, original->small).first->second, original->small);
    }
}

TEST(Inner, objects_that_share_granules_arrive_each_once) {
    for (const std::size_t count : {1u, 2u, 7u, 300u, 5000u}) {
        expect_pool_to_arrive<2>(count);  // 40 bytes
        expect_pool_to_arrive<4>(count);  // 48
        expect_pool_to_arrive<9>(count);  // 72
    }
}

}  // namespace
}  // namespace verbatim
