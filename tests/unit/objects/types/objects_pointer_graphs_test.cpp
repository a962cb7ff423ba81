// Graphs of objects that refer to each other by raw pointers arrive with every pointer in its
// place: nodes by themselves, and in arrays larger than a segment, through a loopback.
#include <array>
#include <forward_list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"

namespace verbatim::objects {
namespace {

struct Fan {
    std::uint64_t number = 0;
    Fan* first = nullptr;
    Fan* second = nullptr;
    const std::uint32_t* leaf = nullptr;
};
static_assert(PointerFan<Fan>);

// Its own pointers among these; some are null, some lead twice to the same.
void link_at_random(std::span<Fan* const> fans, std::span<const std::uint32_t> leaves) {
    std::mt19937_64 random(7);
    const auto any = [&]() { return random() % 5 == 0 ? nullptr : fans[random() % fans.size()]; };
    for (std::size_t i = 0; i < fans.size(); ++i) {
        Fan* const second = any();
        *fans[i] = {i, fans[(i + 1) % fans.size()], i % 7 == 0 ? fans[i] : second,
                    &leaves[random() % leaves.size()]};
    }
}
// In the order of the ring that `first` makes.
void expect_equal_rings(const Fan& sent, const Fan& got, std::size_t count) {
    std::vector<const Fan*> copies(count);
    const Fan* copy = &got;
    for (std::size_t i = 0; i < count; ++i, copy = copy->first) {
        ASSERT_EQ(copy->number, i);
        copies[i] = copy;
    }
    ASSERT_EQ(copy, &got);
    const Fan* fan = &sent;
    for (std::size_t i = 0; i < count; ++i, fan = fan->first) {
        ASSERT_EQ(copies[i]->second, fan->second ? copies[fan->second->number] : nullptr);
        ASSERT_EQ(*copies[i]->leaf, *fan->leaf);
    }
}

TEST(PointerGraphs, fans_arrive_from_arena_heap_and_array) {
    constexpr std::size_t kCount = 20'000;
    std::vector<std::uint32_t> leaves(100);
    for (std::uint32_t i = 0; i < leaves.size(); ++i) leaves[i] = i * i;
    Loopback<Fan> loopback;
    std::vector<std::unique_ptr<Fan>> owners(kCount);
    std::vector<Fan> side_by_side(kCount);
    // Elements of an array need not lie on granules.
    auto* const beside = reinterpret_cast<Fan*>(
        static_cast<std::byte*>(loopback.arena().allocate((kCount + 1) * sizeof(Fan), 16)) + 8);
    std::array<std::vector<Fan*>, 4> all;
    for (std::size_t i = 0; i < kCount; ++i) {
        all[0].push_back(new (loopback.arena().allocate(sizeof(Fan), 16)) Fan);
        owners[i] = std::make_unique<Fan>();
        all[1].push_back(owners[i].get());
        all[2].push_back(&side_by_side[i]);
        all[3].push_back(new (beside + i) Fan);
    }
    for (const std::vector<Fan*>& fans : all)
        for (const std::uint64_t flush_bytes : {std::uint64_t{64}, kSegmentBytes}) {
            link_at_random(fans, leaves);
            loopback.flush_bytes = flush_bytes;
            expect_equal_rings(*fans[0], loopback.send(*fans[0]), kCount);
            EXPECT_EQ(loopback.objects, kCount + leaves.size());
        }
}

TEST(PointerGraphs, a_fan_of_an_array_that_is_met_later_begins_the_walk_anew) {
    struct Both {
        Fan* first = nullptr;
        Fan* second = nullptr;
        std::vector<Fan> fans;
    };
    std::vector<std::uint32_t> leaves(3, 5);
    Both both;
    both.fans.resize(1000);
    std::vector<Fan*> fans;
    for (Fan& fan : both.fans) fans.push_back(&fan);
    link_at_random(fans, leaves);
    both.first = fans[10];
    both.second = fans[11];
    Loopback<Both> loopback;
    const Both& got = loopback.send(both);
    EXPECT_EQ(got.first, &got.fans[10]);
    EXPECT_EQ(got.second, &got.fans[11]);
    expect_equal_rings(both.fans[0], got.fans[0], fans.size());
}

// A part of it has left by then: those bytes must stay until they were read.
TEST(PointerGraphs, a_walk_that_begins_anew_fills_no_buffer_that_is_under_way) {
    struct Tree {
        Tree* next = nullptr;
        std::vector<Tree> kids;
        std::string name;
    };
    Tree owner;
    owner.kids.resize(20'000);
    std::vector<std::unique_ptr<Tree>> apart(10'000);
    for (std::size_t i = 0; i < owner.kids.size(); ++i)
        owner.kids[i] = {nullptr, {}, "a name that is not short at all " + std::to_string(i)};
    for (std::size_t i = 0; i < apart.size(); ++i)
        apart[i] = std::make_unique<Tree>(
            Tree{i == 0 ? &owner.kids[7] : apart[i - 1].get(), {}, std::string(40, 'x')});
    apart[0]->next = &owner.kids[7];
    std::vector<Tree*> roots{apart.back().get(), &owner.kids[3], &owner};
    Loopback<std::vector<Tree*>> loopback;
    const std::vector<Tree*>& got = loopback.send(roots);
    EXPECT_GT(loopback.restarts, 0u);
    const Tree* last = got[0];
    for (std::size_t i = 1; i < apart.size(); ++i) last = last->next;
    EXPECT_EQ(last->next, &got[2]->kids[7]);
    EXPECT_EQ(got[1], &got[2]->kids[3]);
    for (std::size_t i = 0; i < owner.kids.size(); ++i)
        ASSERT_EQ(got[2]->kids[i].name, owner.kids[i].name);
}

struct Corner;
struct Edge {
    Edge* next = nullptr;
    Corner* from = nullptr;
    std::string name;
};
struct Corner {
    std::uint32_t number = 0;
    Edge* edge = nullptr;
    std::vector<Edge*> all;
};
struct Mesh {
    Edge* middle = nullptr;
    std::vector<Corner> corners;
    std::vector<std::vector<Edge>> edges;  // two arrays, which are walked in turn
};
static_assert(kLeavesInExcerpts<Edge> && kLeavesInExcerpts<Corner>);

Mesh mesh_of(std::size_t count) {
    Mesh mesh;
    mesh.corners.resize(count);
    mesh.edges.assign(2, std::vector<Edge>(count));
    std::mt19937_64 random(11);
    const auto edge = [&] { return &mesh.edges[random() % 2][random() % count]; };
    for (std::size_t i = 0; i < count; ++i) {
        mesh.corners[i] = {static_cast<std::uint32_t>(i), edge(), {edge(), edge()}};
        for (std::vector<Edge>& edges : mesh.edges)
            edges[i] = {edge(), &mesh.corners[random() % count],
                        i % 3 == 0 ? "a name that is not short at all" : std::to_string(i)};
    }
    mesh.middle = &mesh.edges[1][count / 2];
    return mesh;
}
// The same element of the other mesh.
const Edge* twin(const Mesh& of, const Mesh& in, const Edge* edge) {
    for (std::size_t i = 0; i < of.edges.size(); ++i)
        if (edge >= of.edges[i].data() && edge < of.edges[i].data() + of.edges[i].size())
            return in.edges[i].data() + (edge - of.edges[i].data());
    return nullptr;
}
void expect_equal(const Mesh& sent, const Mesh& got) {
    ASSERT_EQ(got.middle, twin(sent, got, sent.middle));
    ASSERT_EQ(got.corners.size(), sent.corners.size());
    for (std::size_t i = 0; i < sent.corners.size(); ++i) {
        ASSERT_EQ(got.corners[i].number, i);
        ASSERT_EQ(got.corners[i].edge, twin(sent, got, sent.corners[i].edge));
        for (std::size_t k = 0; k < 2; ++k) {
            ASSERT_EQ(got.corners[i].all[k], twin(sent, got, sent.corners[i].all[k]));
            const Edge& one = sent.edges[k][i];
            const Edge& other = got.edges[k][i];
            ASSERT_EQ(other.next, twin(sent, got, one.next));
            ASSERT_EQ(other.from - got.corners.data(), one.from - sent.corners.data());
            ASSERT_EQ(other.name, one.name);
        }
    }
}

TEST(PointerGraphs, large_arrays_whose_elements_refer_to_each_other_arrive) {
    const Mesh mesh = mesh_of(12'000);
    ASSERT_GT(mesh.edges[0].size() * sizeof(Edge), kSegmentBytes);
    Loopback<Mesh> loopback;
    for (const std::uint64_t flush_bytes :
         {std::uint64_t{64}, std::uint64_t{4096}, kSegmentBytes}) {
        loopback.flush_bytes = flush_bytes;
        expect_equal(mesh, loopback.send(mesh));
    }
}

TEST(PointerGraphs, references_of_large_arrays_need_no_records) {
    constexpr std::size_t kCount = 50'000;
    std::vector<Edge> edges(kCount);
    Corner corner;
    for (std::size_t i = 0; i < kCount; ++i)
        edges[i] = {&edges[i * 7919 % kCount], &corner, std::to_string(i)};
    Loopback<std::vector<Edge>> loopback;
    const std::vector<Edge>& got = loopback.send(edges);
    // Of the corner's own: none of its parts refers to anything.
    EXPECT_EQ(loopback.records, 0u);
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(got[i].next, &got[i * 7919 % kCount]);
        ASSERT_EQ(got[i].from, got[0].from);
        ASSERT_EQ(got[i].name, std::to_string(i));
    }
}

// Which objects lie in these only their bytes say: so all of them have come before any is walked.
TEST(PointerGraphs, large_arrays_of_what_may_be_absent_arrive) {
    struct Item {
        std::optional<std::uint64_t> value;
        const std::uint64_t* other = nullptr;
    };
    static_assert(!kLeavesInExcerpts<Item>);
    constexpr std::size_t kCount = 20'000;
    std::vector<Item> items(kCount);
    for (std::size_t i = 0; i < kCount; ++i)
        if (i % 2 == 0) items[i].value = i;
    for (std::size_t i = 0; i < kCount; ++i) items[i].other = &*items[i * 34 % kCount].value;
    Loopback<std::vector<Item>> loopback;
    const std::vector<Item>& got = loopback.send(items);
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(got[i].other, &*got[i * 34 % kCount].value);
}

TEST(PointerGraphs, a_cycle_through_a_large_array_is_found_in_an_acyclic_walk) {
    std::vector<Fan> fans(20'000);
    for (std::size_t i = 0; i < fans.size(); ++i) fans[i].number = i;
    fans[15'000].first = &fans[15'000];
    Loopback<std::vector<Fan>> loopback;
    PackOptions options;
    options.acyclic = true;
    try {
        loopback.send(fans, options);
        FAIL() << "a cycle has no end";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer);
    }
}

}  // namespace
}  // namespace verbatim::objects
