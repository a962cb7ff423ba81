// Verifying traversals by hand of objects that lead to each other by pointers. Each returns the
// root, or throws.
#pragma once

#include <algorithm>
#include <vector>

#include "../workloads/links.hpp"
#include "../workloads/meshes.hpp"
#include "../workloads/sequences.hpp"
#include "composed_checks.hpp"

namespace bench_graph::by_hand {

inline Link* receive(Link* root, const Memory& memory, std::byte* map) {
    const Starts starts(reinterpret_cast<std::uint16_t*>(map), memory);
    for (Link* at = starts.follow<Link, 1>(root, memory); at != nullptr;)
        at = starts.follow<Link, 1>(at->next, memory);
    return root;
}

inline Branch* receive(Branch* root, const Memory& memory, std::byte* map) {
    const Starts starts(reinterpret_cast<std::uint16_t*>(map), memory);
    static std::vector<Branch*> left(std::size_t{1} << 20);
    Branch** end = left.data();
    for (Branch* at = starts.follow<Branch, 1>(root, memory); at != nullptr;) {
        Branch* const right = starts.follow<Branch, 1>(at->right, memory);
        if (right != nullptr) *end++ = right;
        at = starts.follow<Branch, 1>(at->left, memory);
        if (at == nullptr && end != left.data()) at = *--end;
    }
    return root;
}

inline Node* receive(Node* root, const Memory& memory, std::byte* map) {
    const Starts starts(reinterpret_cast<std::uint16_t*>(map), memory);
    static std::vector<Node*> left(std::size_t{1} << 20);
    Node** end = left.data();
    for (Node* at = starts.follow<Node, 1>(root, memory); at != nullptr;) {
        for (Node** field : {&at->fourth, &at->third, &at->second})
            if (Node* const next = starts.follow<Node, 1>(*field, memory)) *end++ = next;
        at = starts.follow<Node, 1>(at->first, memory);
        if (at == nullptr && end != left.data()) at = *--end;
    }
    return root;
}

inline Cloud* receive(Cloud* root, const Memory& memory, std::byte* map) {
    const Places places(memory);
    const Starts starts(reinterpret_cast<std::uint16_t*>(map), memory);
    auto* const words = reinterpret_cast<std::uint16_t*>(map);
    const auto take = [&](std::uint64_t at, std::uint64_t bytes) {
        check(at % 8 == 0 && std::all_of(words + at / 8, words + (at + bytes + 7) / 8,
                                         [](std::uint16_t word) { return word == 0; }));
        std::fill_n(words + at / 8, (bytes + 7) / 8, std::uint16_t{0x8000});
    };
    const std::uint64_t place = places.of<Cloud>(root);
    take(place, sizeof(Cloud));
    root = places.at<Cloud>(place);
    move_vector(root->points, places, take);
    for (Point*& point : root->points) (void)starts.follow<Point, 1>(point, memory);
    return root;
}

// An array whose elements others point to.
template <class T>
class Array {
  public:
    // Moves the vector.
    Array(std::pmr::vector<T>& vector, const Places& places, const Taken& taken)
        : sent_(reinterpret_cast<std::uint64_t>(vector.data())),
          count_(move_vector(vector, places, [&](auto at, auto bytes) { taken.take(at, bytes); }) /
                 sizeof(T)),
          first_(vector.data()) {}
    [[gnu::always_inline]] void move(T*& field) const {
        if (field == nullptr) return;
        const std::uint64_t bytes = reinterpret_cast<std::uint64_t>(field) - sent_;
        check(bytes % sizeof(T) == 0 && bytes / sizeof(T) < count_);
        field = first_ + bytes / sizeof(T);
    }

  private:
    const std::uint64_t sent_;
    const std::uint64_t count_;
    T* const first_;
};

inline Mesh* receive(Mesh* sent, const Memory& memory, std::byte* map) {
    const auto [places, taken, root] = Begun<Mesh>(sent, memory, map);
    const Array<Vertex> vertices(root->vertices, places, taken);
    const Array<HalfEdge> edges(root->edges, places, taken);
    const Array<Face> faces(root->faces, places, taken);
    for (Vertex& vertex : root->vertices) edges.move(vertex.edge);
    for (Face& face : root->faces) edges.move(face.edge);
    for (HalfEdge& edge : root->edges) {
        edges.move(edge.next);
        edges.move(edge.twin);
        vertices.move(edge.vertex);
        faces.move(edge.face);
    }
    return root;
}

}  // namespace bench_graph::by_hand
