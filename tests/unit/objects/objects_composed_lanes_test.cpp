// Arrays whose elements lead into each other's, by several pointers each: blocks of them are looked
// at two words at a time. One pointer that is wrong must be found, wherever it is.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <vector>

#include <verbatim/objects/composed/composition.hpp>

#include "objects_arrived.hpp"
#include "sanitized.hpp"

namespace verbatim::lanes {

// Its pointer lies across two words.
#pragma pack(push, 4)
struct alignas(8) Packed {
    std::uint32_t number = 0;
    std::uint64_t* to = nullptr;
    std::uint32_t padding = 0;
};
#pragma pack(pop)
VERBATIM_DESCRIBE(Packed, number, to, padding)
struct PackedModel {
    std::pmr::vector<std::uint64_t> numbers;
    std::pmr::vector<Packed> packed;
};

struct Link {
    Link* next = nullptr;
};
struct Chain {
    std::pmr::vector<Link> links;
};

// Of 2, 4, 1 and 3 words.
struct Edge;
struct Vertex {
    double x = 0;
    Edge* edge = nullptr;
};
struct Face {
    const Edge* edge = nullptr;
};
struct Edge {
    Vertex* from = nullptr;
    Vertex* to = nullptr;
    const Face* face = nullptr;
    Edge* next = nullptr;
};
struct Label {
    Edge* edge = nullptr;
    double weight = 0;
    Vertex* vertex = nullptr;
};
struct Model {
    std::pmr::vector<Vertex> vertices;
    std::pmr::vector<Edge> edges;
    std::pmr::vector<Face> faces;
    std::pmr::vector<Label> labels;
    std::pmr::vector<Vertex*> order;
};

namespace {

using test::Arrived;
using test::finished;
using Message = objects::Composition<Model>;

constexpr std::size_t kCount = 150;  // two blocks, and a part of one
constexpr std::size_t kWhole = 128;  // two blocks

// Where each pointer leads.
std::size_t other(std::size_t i, std::size_t step) { return (i * step + 3) % kCount; }

void fill(Model& model) {
    model.vertices.resize(kCount);
    model.edges.resize(kCount);
    model.faces.resize(kCount);
    model.labels.resize(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        Edge* const edges = model.edges.data();
        Vertex* const vertices = model.vertices.data();
        vertices[i] = {static_cast<double>(i), edges + other(i, 7)};
        edges[i] = {vertices + other(i, 11), vertices + i, &model.faces[other(i, 13)],
                    edges + other(i, 17)};
        model.faces[i] = {edges + other(i, 19)};
        model.labels[i] = {edges + other(i, 23), static_cast<double>(i), vertices + other(i, 29)};
        model.order.push_back(vertices + other(i, 31));
    }
}
void expect_filled(const Model& model) {
    ASSERT_EQ(model.order.size(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(model.vertices[i].x, static_cast<double>(i));
        EXPECT_EQ(model.vertices[i].edge, &model.edges[other(i, 7)]);
        EXPECT_EQ(model.edges[i].from, &model.vertices[other(i, 11)]);
        EXPECT_EQ(model.edges[i].to, &model.vertices[i]);
        EXPECT_EQ(model.edges[i].face, &model.faces[other(i, 13)]);
        EXPECT_EQ(model.edges[i].next, &model.edges[other(i, 17)]);
        EXPECT_EQ(model.faces[i].edge, &model.edges[other(i, 19)]);
        EXPECT_EQ(model.labels[i].edge, &model.edges[other(i, 23)]);
        EXPECT_EQ(model.labels[i].weight, static_cast<double>(i));
        EXPECT_EQ(model.labels[i].vertex, &model.vertices[other(i, 29)]);
        EXPECT_EQ(model.order[i], &model.vertices[other(i, 31)]);
    }
}

// The pointers of the elements with a number.
std::array<void*, 9> pointers_of(Model& model, std::size_t i) {
    Edge& edge = model.edges[i];
    return {&model.vertices[i].edge,
            &edge.from,
            &edge.to,
            &edge.face,
            &edge.next,
            &model.faces[i].edge,
            &model.labels[i].edge,
            &model.labels[i].vertex,
            &model.order[i]};
}
std::uint64_t read(const void* pointer) {
    std::uint64_t address = 0;
    std::memcpy(&address, pointer, sizeof address);
    return address;
}
void write(void* pointer, std::uint64_t address) { std::memcpy(pointer, &address, sizeof address); }

template <class Root = Model>
bool arrives(const objects::ComposedMemory& memory) {
    try {
        const Arrived<Root> arrived(memory);
        return true;
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_message);
        return false;
    }
}
// In elements of whole blocks, at their edges, and behind them.
template <class Call>
void each_pointer(Message& message, Call call) {
    for (const std::size_t i : std::array<std::size_t, 8>{0, 1, 63, 64, 100, 127, 128, 149})
        for (void* const pointer : pointers_of(message.root(), i)) {
            const std::uint64_t right = read(pointer);
            call(pointer, right);
            write(pointer, right);
        }
}

TEST(ComposedLanes, arrays_that_lead_into_each_other_arrive) {
    Message message(std::uint64_t{1} << 20);
    fill(message.root());
    const auto bytes = finished(message);
    ASSERT_TRUE(bytes.has_value());
    const Arrived<Model> moved(bytes->memory);
    EXPECT_EQ(moved.objects, bytes->objects);
    expect_filled(*moved.root);
    // And where they were composed.
    objects::ComposedTables tables;
    objects::ComposedVerifier<Model> verifier(tables);
    EXPECT_EQ(verifier.run(bytes->memory), &message.root());
    expect_filled(message.root());
}

TEST(ComposedLanes, each_pointer_may_be_null) {
    Message message(std::uint64_t{1} << 20);
    fill(message.root());
    const objects::ComposedMemory memory = finished(message)->memory;
    each_pointer(message, [&](void* pointer, std::uint64_t) {
        write(pointer, 0);
        EXPECT_TRUE(finished(message).has_value());
        const Arrived<Model> arrived(memory);
        EXPECT_EQ(
            read(arrived.copy.bytes.get() + (static_cast<std::byte*>(pointer) - memory.bytes)), 0u);
    });
    expect_filled(*Arrived<Model>(memory).root);
}

// Near the right element, to another type's, far away, and where distances wrap.
TEST(ComposedLanes, one_wrong_pointer_is_found) {
    Message message(std::uint64_t{1} << 20);
    Model& model = message.root();
    fill(model);
    const objects::ComposedMemory memory = finished(message)->memory;
    constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
    const auto start = reinterpret_cast<std::uint64_t>(memory.bytes);
    each_pointer(message, [&](void* pointer, std::uint64_t right) {
        for (const std::uint64_t wrong :
             {right + 1, right + 4, right - 4, right + kHalf, right - kHalf / 2, right + kHalf / 8,
              start, start + memory.used, start - 64, std::uint64_t{8}, ~std::uint64_t{7},
              reinterpret_cast<std::uint64_t>(model.labels.data()),
              reinterpret_cast<std::uint64_t>(model.order.data())}) {
            write(pointer, wrong);
            EXPECT_FALSE(finished(message).has_value()) << std::hex << wrong;
            EXPECT_FALSE(arrives(memory)) << std::hex << wrong;
        }
    });
    EXPECT_TRUE(arrives(memory));
}

TEST(ComposedLanes, the_ends_of_an_array_are_known) {
    Message message(std::uint64_t{1} << 20);
    Model& model = message.root();
    fill(model);
    const objects::ComposedMemory memory = finished(message)->memory;
    each_pointer(message, [&](void* pointer, std::uint64_t right) {
        const auto edges = reinterpret_cast<std::uint64_t>(model.edges.data());
        if (right - edges >= kCount * sizeof(Edge)) return;
        write(pointer, edges);
        EXPECT_TRUE(arrives(memory));
        write(pointer, edges + (kCount - 1) * sizeof(Edge));
        EXPECT_TRUE(arrives(memory));
        for (const std::uint64_t wrong :
             {edges - sizeof(Edge), edges + sizeof(Edge) / 2, edges + kCount * sizeof(Edge)}) {
            write(pointer, wrong);
            EXPECT_FALSE(finished(message).has_value());
            EXPECT_FALSE(arrives(memory));
        }
    });
}

TEST(ComposedLanes, pointers_of_packed_classes_are_looked_at_where_they_lie) {
    if (test::kSanitized)
        GTEST_SKIP() << "runs without sanitizers: they report references to packed members";
    objects::Composition<PackedModel> message(std::uint64_t{1} << 20);
    PackedModel& model = message.root();
    model.numbers.resize(kWhole);
    model.packed.resize(kWhole);
    for (std::size_t i = 0; i < kWhole; ++i) model.packed[i].to = &model.numbers[kWhole - 1 - i];
    const objects::ComposedMemory memory = finished(message)->memory;
    const Arrived<PackedModel> arrived(memory);
    for (std::size_t i = 0; i < kWhole; ++i)
        EXPECT_EQ(arrived.root->packed[i].to, &arrived.root->numbers[kWhole - 1 - i]);
    // The first word of each is a right address, and the pointer is not.
    constexpr std::uint64_t kRest = 0x41414141;
    for (std::size_t i = 0; i < kWhole; ++i) {
        auto* const words = reinterpret_cast<std::byte*>(&model.packed[i]);
        write(words, reinterpret_cast<std::uint64_t>(&model.numbers[i]));
        write(words + sizeof(std::uint64_t), kRest);
    }
    EXPECT_FALSE(arrives<PackedModel>(memory));
}

// Its head says so of the address where it was composed.
TEST(ComposedLanes, null_stays_null_where_an_element_lay_at_address_0) {
    objects::Composition<Chain> message(std::uint64_t{1} << 16);
    message.root().links.resize(kWhole);
    const objects::ComposedMemory memory = finished(message)->memory;
    const std::uint64_t moved = 0 - reinterpret_cast<std::uint64_t>(message.root().links.data());
    const auto start = reinterpret_cast<std::uint64_t>(memory.bytes);
    for (std::size_t i = 0; i < sizeof(Chain) / sizeof start; ++i) {
        auto* const at = reinterpret_cast<std::byte*>(&message.root()) + i * sizeof start;
        if (read(at) - start <= memory.used) write(at, read(at) + moved);
    }
    write(memory.bytes, start + moved);
    const Arrived<Chain> arrived(memory);
    ASSERT_EQ(arrived.root->links.size(), kWhole);
    for (const Link& link : arrived.root->links) EXPECT_EQ(link.next, nullptr);
}

}  // namespace
}  // namespace verbatim::lanes
