// Compositions without a connection: what the sender finds in them, and what the receiver makes of
// their bytes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <unordered_map>
#include <vector>

#include <verbatim/objects/composed/composition.hpp>

#include "objects_arrived.hpp"
#include "pair/connected_pair.hpp"

namespace verbatim::composition {

struct Tip {
    std::uint64_t value = 0;
};
struct Spoke;
// Three sizes: of 3, 5 and 1 granules.
struct Ring {
    std::uint64_t value = 0;
    Ring* next = nullptr;
    Spoke* spoke = nullptr;
};
struct Spoke {
    std::uint64_t value = 0;
    Spoke* left = nullptr;
    Spoke* right = nullptr;
    Ring* ring = nullptr;
    const Tip* tip = nullptr;
};
struct Wheel {
    std::pmr::vector<Ring*> rings;
    std::pmr::vector<Spoke*> spokes;
};

struct Base {
    int first = 1;
};
struct Derived : Base {
    int second = 2;
};
VERBATIM_DESCRIBE_DERIVED(Derived, (Base), second)
struct Shelf {
    Base* base = nullptr;
    int* number = nullptr;
    std::pmr::string* word = nullptr;
    std::unique_ptr<Shelf> owned;
    Shelf* other = nullptr;
    std::pmr::list<std::pmr::string> words;
    std::pmr::map<int, int> prices;
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> map;
    std::pmr::unordered_map<int, std::pmr::string> table;
};

struct Edge;
struct Corner {
    double x = 0;
    const Edge* edge = nullptr;
};
struct Edge {
    Corner* from = nullptr;
    Corner* to = nullptr;
};
struct Numbers {
    std::pmr::vector<int> own;
    int* one = nullptr;
    Numbers* other = nullptr;
};
// Containers inside of others, and single values.
struct Desk {
    std::stack<std::pmr::string, std::pmr::vector<std::pmr::string>> pile;
    std::queue<int, std::pmr::deque<int>> calls;
    std::priority_queue<int, std::pmr::vector<int>> urgent;
    std::atomic<int> drawers = 0;
    std::chrono::year_month_day due{};
    std::optional<std::reference_wrapper<const Tip>> tip;
};
// Several parts own something.
struct Label {
    std::pmr::string word, other;
    std::pmr::vector<int> numbers;
    Label* next = nullptr;
};
// What else may lead into a text.
struct AsBytes {
    std::pmr::string text;
    std::span<const std::byte> bytes;
};
struct AsUtf8 {
    std::pmr::string text;
    std::u8string_view view;
};
struct AsNumbers {
    std::pmr::string text;
    const unsigned char* first = nullptr;
};
struct Pool {
    std::pmr::vector<char> memory;
    Corner* corner = nullptr;
};
struct Mesh {
    std::pmr::vector<Edge> edges;
    std::pmr::vector<Corner> corners;
    std::span<const Corner> some;
};

namespace {

using objects::Composition;
using test::Arrived;
using test::finished;

// Rings and spokes that lead to each other, in an order of their own.
Ring* make_wheel(auto& message, std::size_t count) {
    std::vector<Ring*> rings(count);
    std::vector<Spoke*> spokes(count);
    for (std::size_t i = 0; i < count; ++i) {
        rings[i] = message.template make<Ring>();
        spokes[i] = message.template make<Spoke>();
    }
    const Tip* const tip = message.template make<Tip>(Tip{77});
    for (std::size_t i = 0; i < count; ++i) {
        *rings[i] = {i, rings[(i * 7 + 3) % count], spokes[i]};
        *spokes[i] = {i, 2 * i + 1 < count ? spokes[2 * i + 1] : nullptr,
                      2 * i + 2 < count ? spokes[2 * i + 2] : nullptr, rings[i], tip};
    }
    return rings.front();
}

// All objects that can be reached. Each must be one of the message.
template <class T>
std::size_t count_reached(const Arrived<T>& arrived, const Ring* first) {
    std::set<const void*> seen;
    std::vector<const Ring*> rings{first};
    std::vector<const Spoke*> spokes;
    const auto is_new = [&](const void* object) {
        if (object == nullptr) return false;
        EXPECT_TRUE(arrived.holds(object));
        return arrived.holds(object) && seen.insert(object).second;
    };
    while (!rings.empty() || !spokes.empty()) {
        while (!rings.empty()) {
            const Ring* const at = rings.back();
            rings.pop_back();
            if (!is_new(at)) continue;
            rings.push_back(at->next), spokes.push_back(at->spoke);
        }
        while (!spokes.empty()) {
            const Spoke* const at = spokes.back();
            spokes.pop_back();
            if (!is_new(at)) continue;
            spokes.push_back(at->left), spokes.push_back(at->right), rings.push_back(at->ring);
            is_new(at->tip);
        }
    }
    return seen.size();
}

TEST(Composition, objects_that_lead_to_each_other_arrive) {
    for (const std::size_t count : {1u, 2u, 50u, 5000u}) {
        Composition<Ring> message(std::uint64_t{16} << 20);
        message.set_root(*make_wheel(message, count));
        const auto bytes = finished(message);
        ASSERT_TRUE(bytes.has_value());
        const Arrived<Ring> arrived(bytes->memory);
        EXPECT_EQ(count_reached(arrived, arrived.root), arrived.objects);
        EXPECT_EQ(arrived.root->spoke->tip->value, 77u);
        EXPECT_EQ(arrived.root->spoke->ring, arrived.root);
    }
}

TEST(Composition, arrays_of_pointers_to_them_arrive) {
    Composition<Wheel> message(std::uint64_t{16} << 20);
    for (Ring* at = make_wheel(message, 100); at->next != nullptr;) {
        message.root().rings.push_back(at);
        message.root().spokes.push_back(at->spoke);
        at = std::exchange(at->next, nullptr);
    }
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Wheel> arrived(bytes->memory);
    EXPECT_EQ(arrived.objects, bytes->objects);
    ASSERT_EQ(arrived.root->rings.size(), message.root().rings.size());
    for (std::size_t i = 0; i < arrived.root->rings.size(); ++i) {
        EXPECT_EQ(arrived.root->rings[i]->value, message.root().rings[i]->value);
        EXPECT_EQ(arrived.root->rings[i]->spoke, arrived.root->spokes[i]);
    }
}

// The sender looks at all objects that were made, and need not know what leads to them.
TEST(Composition, objects_that_nothing_leads_to_are_told_as_well) {
    Composition<Ring> message(std::uint64_t{1} << 20);
    message.make<Ring>()->next = message.make<Ring>();
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    EXPECT_EQ(bytes->objects, 3u);
    EXPECT_EQ(Arrived<Ring>(bytes->memory).objects, 1u);
}

TEST(Composition, what_such_objects_lead_to_may_lie_anywhere) {
    Ring outside;
    Composition<Ring> message(std::uint64_t{1} << 20);
    message.make<Ring>()->next = &outside;
    message.root().next = message.make<Ring>();
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    EXPECT_EQ(bytes->objects, 2u);
    EXPECT_EQ(Arrived<Ring>(bytes->memory).objects, 2u);
    message.root().next->next = &outside;
    EXPECT_FALSE(finished(message).has_value());
}

TEST(Composition, pointers_to_parts_and_bases_are_found) {
    Composition<Shelf> message(std::uint64_t{1} << 20);
    Shelf& shelf = message.root();
    shelf.words.emplace_back("a word that is too long for its string");
    shelf.word = &shelf.words.back();
    shelf.base = message.make<Derived>();
    shelf.number = &shelf.base->first;
    shelf.owned.reset(message.make<Shelf>());
    shelf.other = shelf.owned.get();
    for (int i = 0; i < 100; ++i) {
        shelf.owned->prices[i * 37 % 100] = i;
        shelf.owned->map[std::pmr::string(std::to_string(i))].push_back(i);
        shelf.owned->table[i] = std::to_string(i);
    }
    for (int i = 0; i < 2; ++i) {
        const auto bytes = finished(message);
        ASSERT_TRUE(bytes.has_value());
        const Arrived<Shelf> arrived(bytes->memory);
        const Shelf& got = *arrived.root;
        EXPECT_EQ(arrived.objects, bytes->objects);
        EXPECT_EQ(got.other, got.owned.get());
        EXPECT_EQ(got.owned->prices, shelf.owned->prices);
        EXPECT_EQ(got.owned->map, shelf.owned->map);
        EXPECT_EQ(got.owned->table, shelf.owned->table);
        if (i == 0) {
            EXPECT_EQ(got.word, &got.words.back());
            EXPECT_EQ(got.base->first, 1);
        }
        // Once more without what only the walk can tell.
        shelf.word = nullptr;
        shelf.base = nullptr;
        shelf.number = nullptr;
    }
}

TEST(Composition, pointers_into_arrays_are_found_in_any_order) {
    Composition<Mesh> message(std::uint64_t{1} << 20);
    Mesh& mesh = message.root();
    mesh.edges.resize(50);
    mesh.corners.resize(100);
    for (std::size_t i = 0; i < mesh.edges.size(); ++i) {
        mesh.edges[i] = {&mesh.corners[i], &mesh.corners[99 - i]};
        mesh.corners[i] = {static_cast<double>(i), &mesh.edges[49 - i]};
    }
    mesh.some = std::span(mesh.corners).subspan(90);
    message.make<Mesh>();  // tells that the walk was not needed
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Mesh> arrived(bytes->memory);
    const Mesh& got = *arrived.root;
    EXPECT_EQ(arrived.objects + 1, bytes->objects);
    for (std::size_t i = 0; i < got.edges.size(); ++i) {
        EXPECT_EQ(got.edges[i].from, &got.corners[i]);
        EXPECT_EQ(got.edges[i].to, &got.corners[99 - i]);
        EXPECT_EQ(got.corners[i].edge, &got.edges[49 - i]);
    }
    EXPECT_EQ(got.some.data(), &got.corners[90]);
    mesh.some = std::span(mesh.corners.data() + 99, 2);  // one more than there are
    EXPECT_FALSE(finished(message).has_value());
    mesh.some = {};
    Edge outside;
    mesh.corners[3].edge = &outside;
    EXPECT_FALSE(finished(message).has_value());
}

// The array does not arrive as a whole, and its second number starts where no object of its own
// can.
TEST(Composition, arrays_of_objects_that_nothing_leads_to_do_not_count) {
    Composition<Numbers> message(std::uint64_t{1} << 20);
    Numbers& other = *message.make<Numbers>();
    other.own = {1, 2, 3};
    message.root().one = &other.own[1];
    EXPECT_FALSE(finished(message).has_value());
    message.root().other = &other;
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Numbers> arrived(bytes->memory);
    EXPECT_EQ(arrived.root->one, &arrived.root->other->own[1]);
}

TEST(Composition, containers_inside_of_others_arrive) {
    using namespace std::chrono;
    constexpr const char* kLong = "a paper with a long title";
    Composition<Desk> message(std::uint64_t{1} << 20);
    Desk& desk = message.root();
    desk.pile.push("a note");
    desk.pile.push(kLong);
    for (int i = 0; i < 500; ++i) desk.calls.push(i);
    for (int i = 0; i < 100; ++i) desk.calls.pop();
    for (const int day : {3, 9, 1, 7}) desk.urgent.push(day);
    desk.drawers = 4;
    desk.due = 2026y / November / 29d;
    desk.tip = *message.make<Tip>(Tip{77});
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Desk> arrived(bytes->memory);
    Desk& got = *arrived.root;
    EXPECT_EQ(got.pile.size(), 2u);
    EXPECT_EQ(got.pile.top(), kLong);
    EXPECT_EQ(got.calls.size(), 400u);
    EXPECT_EQ(got.calls.front(), 100);
    EXPECT_EQ(got.calls.back(), 499);
    EXPECT_EQ(got.urgent.top(), 9);
    EXPECT_EQ(got.drawers, 4);
    EXPECT_EQ(got.due, 2026y / November / 29d);
    EXPECT_EQ(got.tip->get().value, 77u);
    EXPECT_NE(&got.tip->get(), &desk.tip->get());
}

// The order of a priority queue is the peer's word until it was checked.
TEST(Composition, a_priority_queue_out_of_order_is_refused) {
    Composition<Desk> message(std::uint64_t{1} << 20);
    for (const int day : {3, 9, 1}) message.root().urgent.push(day);
    const objects::ComposedMemory memory = finished(message)->memory;
    const test::Image changed = test::Image::empty(memory.used);
    std::memcpy(changed.bytes.get(), memory.bytes, memory.used);
    const auto at = reinterpret_cast<const std::byte*>(&message.root().urgent.top()) - memory.bytes;
    const int least = 0;
    std::memcpy(changed.bytes.get() + at, &least, sizeof least);
    EXPECT_EQ(test::error_code_of([&] {
                  const Arrived<Desk> arrived({changed.bytes.get(), memory.used, memory.address});
              }),
              Errc::corrupt_message);
}

// By the resource, not by make(): so the sender has to follow all references from the root.
TEST(Composition, texts_of_each_length_arrive_with_objects_of_the_resource) {
    Composition<Label> message(std::uint64_t{1} << 20);
    std::pmr::polymorphic_allocator<> memory(message.resource());
    Label* last = &message.root();
    for (std::size_t i = 0; i < 400; ++i) {
        last = last->next = memory.new_object<Label>();
        last->~Label();
        ::new (last) Label{.word = std::pmr::string(i, 'w', memory),
                           .other = std::pmr::string(i / 2, 'o', memory),
                           .numbers = std::pmr::vector<int>(i % 50, 7, memory)};
    }
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Label> arrived(bytes->memory);
    EXPECT_EQ(arrived.objects, bytes->objects);
    const Label* at = arrived.root;
    for (std::size_t i = 0; i < 400; ++i) {
        at = at->next;
        ASSERT_TRUE(arrived.holds(at));
        ASSERT_EQ(at->word, std::pmr::string(i, 'w'));
        ASSERT_EQ(at->other, std::pmr::string(i / 2, 'o'));
        ASSERT_EQ(at->numbers.size(), i % 50);
    }
}
TEST(Composition, texts_of_other_memory_are_outside) {
    Composition<Label> message(std::uint64_t{1} << 20);
    const std::string_view word = "a text that is too long for its object";
    std::pmr::string* const text = &message.root().word;
    ASSERT_TRUE(finished(message).has_value());
    text->~basic_string();
    ::new (text) std::pmr::string(word, std::pmr::new_delete_resource());
    EXPECT_FALSE(finished(message).has_value());
    text->~basic_string();
    ::new (text) std::pmr::string(word, message.resource());
    EXPECT_TRUE(finished(message).has_value());
}
// The receiver would refuse two objects in the same place.
template <class T>
void expect_ordinary_way(auto&& lead) {
    Composition<T> message(std::uint64_t{1} << 20);
    ASSERT_TRUE(finished(message).has_value());
    lead(message.root());
    EXPECT_FALSE(finished(message).has_value()) << typeid(T).name();
}
TEST(Composition, with_references_into_texts_goes_the_ordinary_way) {
    const char* const text = "a text that is too long for its object";
    expect_ordinary_way<AsBytes>([&](AsBytes& root) {
        root.text = text;
        root.bytes = std::as_bytes(std::span<const char>(root.text));
    });
    expect_ordinary_way<AsUtf8>([&](AsUtf8& root) {
        root.text = text;
        root.view = {reinterpret_cast<const char8_t*>(root.text.data()), root.text.size()};
    });
    expect_ordinary_way<AsNumbers>([&](AsNumbers& root) {
        root.text = text;
        root.first = reinterpret_cast<const unsigned char*>(root.text.data());
    });
    expect_ordinary_way<Pool>([&](Pool& root) {
        root.memory.resize(1024);
        root.corner = ::new (root.memory.data()) Corner;
    });
}
// A peer lets the second text start in each granule of the first one.
TEST(Composition, texts_that_overlap_are_refused_at_each_length) {
    for (std::size_t length = 16; length < 300; ++length) {
        Composition<Label> message(std::uint64_t{1} << 20);
        Label& root = message.root();
        root.word.assign(length, 'w');
        root.other.assign(length, 'o');
        const objects::ComposedMemory memory = finished(message)->memory;
        const auto field = reinterpret_cast<const std::byte*>(&root.other) - memory.bytes +
                           static_cast<std::ptrdiff_t>(sizeof(void*));
        for (std::size_t within = 0; within <= length; within += 8) {
            const test::Image changed = test::Image::empty(memory.used);
            std::memcpy(changed.bytes.get(), memory.bytes, memory.used);
            const char* const start = root.word.data() + within;
            std::memcpy(changed.bytes.get() + field, &start, sizeof start);
            try {
                const Arrived<Label> arrived({changed.bytes.get(), memory.used, memory.address});
                FAIL() << "length " << length << ", from " << within;
            } catch (const Error& error) {
                EXPECT_NE(std::string_view(error.what()).find("in the same place"),
                          std::string_view::npos)
                    << error.what();
            }
        }
    }
}

TEST(Composition, containers_of_other_memory_are_outside) {
    Composition<Shelf> message(std::uint64_t{1} << 20);
    Shelf& shelf = message.root();
    ASSERT_TRUE(finished(message).has_value());
    std::pmr::map<int, int> other(std::pmr::new_delete_resource());
    other[1] = 2;
    ::new (&shelf.prices) std::pmr::map<int, int>(other, other.get_allocator());
    EXPECT_FALSE(finished(message).has_value());
    shelf.prices.clear();
    EXPECT_TRUE(finished(message).has_value());
}

TEST(Composition, what_does_not_fit_is_outside) {
    Composition<Ring> message(4096);
    Ring* at = &message.root();
    for (int i = 0; i < 1000; ++i) at = at->next = message.make<Ring>();
    EXPECT_FALSE(finished(message).has_value());
    message.root().next = nullptr;
    EXPECT_TRUE(finished(message).has_value());
}

// Each word of a message becomes each address of it, and some more: an error, or a graph all of
// whose objects lie in the message and have a place of their own.
TEST(Composition, any_word_may_be_any_address) {
    Composition<Ring> message(4096, SetAside::kFirst + (1 << 30));
    message.set_root(*make_wheel(message, 3));
    const objects::ComposedMemory memory = finished(message)->memory;
    std::size_t refused = 0, taken = 0;
    for (std::uint64_t word = 1; word < memory.used / 8; ++word) {
        for (std::uint64_t to = 0; to <= memory.used + 64; to += 4) {
            const test::Image changed = test::Image::empty(memory.used);
            std::memcpy(changed.bytes.get(), memory.bytes, memory.used);
            const std::uint64_t address = word == 1 ? to : memory.address + to;
            std::memcpy(changed.bytes.get() + word * 8, &address, sizeof address);
            try {
                const Arrived<Ring> arrived({changed.bytes.get(), memory.used, 0});
                EXPECT_LE(count_reached(arrived, arrived.root), arrived.objects);
                ++taken;
            } catch (const Error& error) {
                ASSERT_EQ(error.code(), Errc::corrupt_message);
                ++refused;
            }
        }
    }
    EXPECT_GT(refused, 1000u);
    EXPECT_GT(taken, 100u);
}

}  // namespace
}  // namespace verbatim::composition
