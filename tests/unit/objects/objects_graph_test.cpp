// Graphs of every shape through scan and fix-up: what arrives is the same graph, sharing and cycles
// included.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "objects_image.hpp"

namespace verbatim {
namespace {

using test::image_of;
using test::Scan;
using test::test_arena;

struct Node {
    int value = 0;
    Node* next = nullptr;
    Node* other = nullptr;
};

// Owns what a test hangs into a graph, wherever it lies.
struct Heap {
    std::vector<std::unique_ptr<Node>> nodes;
    Node* make(int value, Node* next = nullptr, Node* other = nullptr) {
        nodes.push_back(std::make_unique<Node>(Node{value, next, other}));
        return nodes.back().get();
    }
};

TEST(Graph, a_cycle_comes_back_to_the_same_object) {
    Heap heap;
    Node* a = heap.make(1);
    a->next = heap.make(2, a, a);
    auto image = image_of(*a);
    const Node* r = image.mend<Node>();
    EXPECT_EQ(r->value, 1);
    EXPECT_EQ(r->next->value, 2);
    EXPECT_EQ(r->next->next, r);
    EXPECT_EQ(r->next->other, r);
}

TEST(Graph, a_tree_needs_no_metadata) {
    Heap heap;
    Node* root = heap.make(1, heap.make(2, heap.make(3), heap.make(4)), heap.make(5));
    auto image = image_of(*root);
    EXPECT_TRUE(image.places.empty());
    EXPECT_TRUE(image.arrays.empty());
    const Node* r = image.mend<Node>();
    EXPECT_EQ(r->next->next->value, 3);
    EXPECT_EQ(r->next->other->value, 4);
    EXPECT_EQ(r->other->value, 5);
}

TEST(Graph, a_shared_object_arrives_once) {
    Heap heap;
    Node* shared = heap.make(7);
    Node* root = heap.make(1, heap.make(2, shared), shared);
    auto image = image_of(*root);
    const Node* r = image.mend<Node>();
    EXPECT_EQ(r->other, r->next->next);
    EXPECT_EQ(image.size, 3 * sizeof(Node) + 2 * 8);  // each but the last padded to 32 bytes
}

TEST(Graph, a_list_of_a_million_nodes_needs_no_recursion) {
    Heap heap;
    Node* head = nullptr;
    for (int i = 0; i < 1'000'000; ++i) head = heap.make(i, head);
    auto image = image_of(*head);
    const Node* n = image.mend<Node>();
    for (int i = 999'999; i >= 0; --i, n = n->next) ASSERT_EQ(n->value, i);
    EXPECT_EQ(n, nullptr);
}

struct Rich {
    std::string name;
    std::vector<std::string> lines;
    std::vector<Rich> children;  // by value, recursive
    std::vector<Rich*> links;
    std::array<std::vector<int>, 2> numbers;
    std::optional<std::string> note;
    std::unique_ptr<Node> owned;
    std::pair<int, std::string> pair;
    std::chrono::nanoseconds duration{};
    bool flag = false;
    std::pmr::string text;
    std::pmr::vector<double> values;
};

TEST(Graph, standard_types_arrive_with_their_contents) {
    Rich root;
    root.name = "a name that is too long to be local";
    root.lines = {"short", "", "another long line that lies on the heap"};
    root.children.resize(2);
    root.children[1].name = "child";
    root.children[1].links = {&root, &root.children[0]};
    root.numbers[1] = {1, 2, 3};
    root.note = "a note of more than fifteen characters";
    root.owned = std::make_unique<Node>(Node{9, nullptr, nullptr});
    root.pair = {4, "four and twenty blackbirds"};
    root.duration = std::chrono::seconds(2);
    root.flag = true;
    root.text = "polymorphic and longer than local";
    root.values = {1.5, 2.5};
    auto image = image_of(root);
    const Rich* r = image.mend<Rich>();
    EXPECT_EQ(r->name, root.name);
    EXPECT_EQ(r->lines, root.lines);
    ASSERT_EQ(r->children.size(), 2u);
    EXPECT_EQ(r->children[1].name, "child");
    EXPECT_EQ(r->children[1].links[0], r);
    EXPECT_EQ(r->children[1].links[1], &r->children[0]);
    EXPECT_TRUE(r->numbers[0].empty());
    EXPECT_EQ(r->numbers[1], root.numbers[1]);
    EXPECT_EQ(r->note, root.note);
    EXPECT_EQ(r->owned->value, 9);
    EXPECT_EQ(r->pair, root.pair);
    EXPECT_EQ(r->duration, root.duration);
    EXPECT_TRUE(r->flag);
    EXPECT_EQ(r->text, root.text);
    EXPECT_EQ(r->values, root.values);
    EXPECT_NE(r->name.data(), root.name.data());
}

TEST(Graph, a_received_container_refuses_to_grow) {
    struct Root {
        std::pmr::vector<int> values;
    };
    Root root{{1, 2, 3}};
    auto image = image_of(root);
    Root* r = image.mend<Root>();
    EXPECT_EQ(r->values.capacity(), 3u);
    EXPECT_THROW(r->values.push_back(4), std::bad_alloc);
}

TEST(Graph, a_string_that_was_longer_once_arrives_as_a_short_one) {
    struct Root {
        std::vector<std::string> strings;
    };
    Root root{{std::string(100, 'x'), "local"}};
    root.strings[0] = "was long";
    ASSERT_GT(root.strings[0].capacity(), 15u);
    auto image = image_of(root);
    const Root* r = image.mend<Root>();
    EXPECT_EQ(r->strings, root.strings);
    EXPECT_EQ(root.strings[0], "was long");  // the sender's own string is untouched
    EXPECT_GT(root.strings[0].capacity(), 15u);
}

struct Item {
    int id = 0;
    Item* peer = nullptr;
    struct Owner* owner = nullptr;
};
struct Owner {
    std::vector<Item> items;
};
struct EarlyPointer {
    Item* favourite = nullptr;  // met before the vector that holds it
    Owner* owner = nullptr;
};

Owner owner_of(std::size_t count) {
    Owner owner;
    owner.items.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        owner.items[i].id = static_cast<int>(i);
        owner.items[i].peer = &owner.items[(i + 1) % count];
    }
    return owner;
}

TEST(Graph, a_pointer_into_a_vector_met_later_leads_to_the_same_element) {
    Owner owner = owner_of(5);
    const EarlyPointer root{&owner.items[3], &owner};
    auto image = image_of(root);
    const auto* r = image.mend<EarlyPointer>();
    EXPECT_EQ(r->favourite, &r->owner->items[3]);
    EXPECT_EQ(r->favourite->peer, &r->owner->items[4]);
}

TEST(Graph, a_vector_reached_only_through_one_of_its_elements_arrives_whole) {
    Owner owner = owner_of(4);
    for (Item& item : owner.items) item.owner = &owner;
    struct Root {
        Item* item;
    };
    const Root root{&owner.items[2]};
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    EXPECT_EQ(r->item->id, 2);
    ASSERT_EQ(r->item->owner->items.size(), 4u);
    EXPECT_EQ(r->item, &r->item->owner->items[2]);
}

TEST(Graph, the_root_itself_may_be_an_element_of_a_vector_it_leads_to) {
    Owner owner = owner_of(4);
    owner.items[1].owner = &owner;
    auto image = image_of(owner.items[1]);
    const auto* r = image.mend<Item>();
    EXPECT_EQ(r, &r->owner->items[1]);
    EXPECT_EQ(r->peer, &r->owner->items[2]);
}

struct Outer {
    int before = 0;
    Node inside;
    int after = 0;
};
struct MemberPointer {
    Node* inside = nullptr;
    Outer* outer = nullptr;
};

TEST(Graph, a_pointer_to_a_member_met_before_its_object_leads_into_it) {
    Outer outer{1, {2, nullptr, nullptr}, 3};
    outer.inside.next = &outer.inside;
    const MemberPointer root{&outer.inside, &outer};
    auto image = image_of(root);
    const auto* r = image.mend<MemberPointer>();
    EXPECT_EQ(r->inside, &r->outer->inside);
    EXPECT_EQ(r->inside->next, r->inside);
    EXPECT_EQ(r->outer->after, 3);
}

// Strings are noted without saying whose they are until something points into one.
TEST(Graph, pointers_into_strings_lead_to_the_same_characters) {
    struct Root {
        const char* early;
        std::vector<std::string> words;
        std::vector<const char*> late;
    };
    Root root{nullptr, {}, {}};
    for (const std::size_t bytes : {40u, 100u, 3000u, 9000u})
        root.words.emplace_back(bytes, static_cast<char>('a' + root.words.size()));
    root.early = &root.words[1][99];
    for (const std::string& word : root.words) {
        root.late.push_back(&word[17]);
        root.late.push_back(word.data());
        root.late.push_back(word.data() + word.size());
    }
    Scan scan(test_arena());
    for (int round = 0; round < 2; ++round) {  // a scan knows what it saw in the graphs before
        if (round == 1) root.early = nullptr;
        scan.run(root);
        auto image = scan.image();
        const auto* r = image.mend<Root>();
        EXPECT_EQ(r->early, round == 0 ? &r->words[1][99] : nullptr);
        EXPECT_EQ(r->words, root.words);
        for (std::size_t i = 0; i < r->words.size(); ++i) {
            EXPECT_EQ(r->late[3 * i], &r->words[i][17]);
            EXPECT_EQ(r->late[3 * i + 1], r->words[i].data());
            EXPECT_EQ(r->late[3 * i + 2], r->words[i].data() + r->words[i].size());
        }
    }
}

// Arrays of pointers to what is known already, with everything between them that is not.
TEST(Graph, arrays_of_pointers_back_arrive_whatever_lies_between_them) {
    Heap heap;
    std::vector<Node> table(50);
    struct Root {
        std::vector<Node>* table;
        std::vector<Node*> pointers;
    };
    Root root{&table, {}};
    std::mt19937 random(3);
    for (int i = 0; i < 400; ++i) {
        const auto choice = random() % 8;
        if (choice == 0)
            root.pointers.push_back(nullptr);
        else if (choice == 1)
            root.pointers.push_back(heap.make(1000 + i));
        else if (choice == 2 && !heap.nodes.empty())
            root.pointers.push_back(heap.nodes[random() % heap.nodes.size()].get());
        else
            root.pointers.push_back(&table[random() % table.size()]);
    }
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    ASSERT_EQ(r->pointers.size(), root.pointers.size());
    std::map<const Node*, const Node*> copies;
    for (std::size_t i = 0; i < root.pointers.size(); ++i) {
        const Node *from = root.pointers[i], *to = r->pointers[i];
        ASSERT_EQ(from == nullptr, to == nullptr);
        if (from == nullptr) continue;
        EXPECT_EQ(copies.emplace(from, to).first->second, to);
        EXPECT_EQ(to->value, from->value);
        const bool in_table = from >= table.data() && from < table.data() + table.size();
        if (in_table) {
            EXPECT_EQ(to - r->table->data(), from - table.data());
        }
    }
}

TEST(Graph, small_objects_may_share_a_granule) {
    struct Root {
        int *a, *b, *c;
        std::vector<unsigned char*> letters;
    };
    int numbers[2] = {1, 2};
    unsigned char letters[3] = {'x', 'y', 'z'};
    const Root root{&numbers[0], &numbers[1], &numbers[0], {&letters[2], &letters[0], &letters[2]}};
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    EXPECT_EQ(*r->a, 1);
    EXPECT_EQ(*r->b, 2);
    EXPECT_EQ(r->c, r->a);
    EXPECT_EQ(*r->letters[0], 'z');
    EXPECT_EQ(*r->letters[1], 'x');
    EXPECT_EQ(r->letters[2], r->letters[0]);
}

// So many neighbours that whole pages are theirs, and other objects in the bytes between them.
TEST(Graph, objects_in_the_padding_of_many_neighbours_arrive_once) {
    struct Large {
        std::array<std::uint64_t, 3> words;
    };
    struct Root {
        std::vector<Large*> large;
        std::vector<std::uint64_t*> between;
    };
    Arena& arena = test_arena();
    constexpr std::size_t kCount = 1000, kBytes = 32;
    auto* block = static_cast<std::byte*>(arena.allocate(kCount * kBytes, 4096));
    Root root;
    for (std::size_t i = 0; i < kCount; ++i) {
        root.large.push_back(::new (block + i * kBytes) Large{{i, i, i}});
        root.between.push_back(::new (block + i * kBytes + sizeof(Large))
                                   std::uint64_t(i + kCount));
    }
    root.between.insert(root.between.end(), root.between.begin(), root.between.end());
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(r->large[i]->words[2], i);
        EXPECT_EQ(*r->between[i], i + kCount);
        EXPECT_EQ(r->between[i], r->between[i + kCount]) << i;
    }
    arena.deallocate(block, kCount * kBytes, 4096);
}

// Whole pages belong to one object; others begin and end in the pages around it.
TEST(Graph, objects_around_one_of_several_pages_arrive_once) {
    using Large = std::array<std::uint64_t, 2000>;  // 16,000 bytes
    struct Small {
        std::uint64_t number;
        Small* other;
    };
    struct Root {
        std::vector<Small*> before;
        std::vector<Large*> large;
        std::vector<Small*> after;
    };
    constexpr std::size_t kSide = 200, kBytes = 2 * kSide * sizeof(Small) + sizeof(Large);
    auto* block = static_cast<std::byte*>(test_arena().allocate(kBytes, 4096));
    auto* const large = ::new (block + kSide * sizeof(Small)) Large{};
    Root root;
    root.large = {large, large};
    for (std::size_t i = 0; i < 2 * kSide; ++i) {
        std::byte* const at = block + i * sizeof(Small) + (i < kSide ? 0 : sizeof(Large));
        (i < kSide ? root.before : root.after).push_back(::new (at) Small{i, nullptr});
    }
    for (std::size_t i = 0; i < kSide; ++i) {
        root.before[i]->other = root.after[i];
        root.after[i]->other = root.before[kSide - 1 - i];
    }
    (*large)[1999] = 9;
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    EXPECT_EQ(r->large[0], r->large[1]);
    EXPECT_EQ((*r->large[0])[1999], 9u);
    for (std::size_t i = 0; i < kSide; ++i) {
        EXPECT_EQ(r->before[i]->number, i);
        EXPECT_EQ(r->before[i]->other, r->after[i]);
        EXPECT_EQ(r->after[i]->other, r->before[kSide - 1 - i]);
    }
    test_arena().deallocate(block, kBytes, 4096);
}

struct alignas(64) Wide {
    double values[8];
};
VERBATIM_DESCRIBE(Wide, values)

TEST(Graph, over_aligned_objects_keep_their_alignment) {
    struct Root {
        std::unique_ptr<int> small;
        std::vector<Wide> wide;
        Wide* one;
    };
    Root root{std::make_unique<int>(3), std::vector<Wide>(3), nullptr};
    root.wide[2].values[7] = 1.25;
    root.one = &root.wide[1];
    auto image = image_of(root);
    const auto* r = image.mend<Root>();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r->wide.data()) % 64, 0u);
    EXPECT_EQ(r->wide[2].values[7], 1.25);
    EXPECT_EQ(r->one, &r->wide[1]);
}

TEST(Graph, random_graphs_arrive_with_every_edge) {
    std::mt19937 random(20261121);
    for (int round = 0; round < 200; ++round) {
        const std::size_t count = 1 + random() % 60;
        // Some on the heap, some in the arena, some side by side in a vector.
        std::vector<Node> together(count);
        Heap heap;
        std::vector<Node*> nodes, in_arena;
        for (std::size_t i = 0; i < count; ++i) switch (random() % 3) {
                case 0:
                    nodes.push_back(&together[i]);
                    break;
                case 1:
                    nodes.push_back(heap.make(0));
                    break;
                default:
                    in_arena.push_back(test_arena().make<Node>());
                    nodes.push_back(in_arena.back());
            }
        std::map<const Node*, int> number;
        for (std::size_t i = 0; i < count; ++i) {
            nodes[i]->value = static_cast<int>(i);
            const auto pick = [&] { return random() % 4 == 0 ? nullptr : nodes[random() % count]; };
            nodes[i]->next = pick();
            nodes[i]->other = pick();
        }
        auto image = image_of(*nodes[0]);
        const Node* root = image.mend<Node>();
        std::map<int, const Node*> met;
        std::vector<const Node*> todo{root};
        while (!todo.empty()) {
            const Node* node = todo.back();
            todo.pop_back();
            const auto [at, fresh] = met.emplace(node->value, node);
            ASSERT_EQ(at->second, node);  // one object per number
            if (!fresh) continue;
            const Node& original = *nodes[static_cast<std::size_t>(node->value)];
            ASSERT_EQ(node->next != nullptr, original.next != nullptr);
            ASSERT_EQ(node->other != nullptr, original.other != nullptr);
            for (const auto& [ours, theirs] :
                 {std::pair(node->next, original.next), std::pair(node->other, original.other)}) {
                if (ours == nullptr) continue;
                ASSERT_EQ(ours->value, theirs->value);
                todo.push_back(ours);
            }
        }
        for (Node* node : in_arena) test_arena().destroy(node);
    }
}

}  // namespace
}  // namespace verbatim
