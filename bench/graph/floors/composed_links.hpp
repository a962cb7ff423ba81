// Verifying traversals by hand of objects that lead to each other by pointers. Each returns the
// root, or throws.
#pragma once

#include <vector>

#include "../workloads/links.hpp"
#include "../workloads/meshes.hpp"
#include "composed_checks.hpp"

namespace bench_graph::by_hand {

inline Link* receive(Link* root, const Memory& memory, std::byte* map) {
    const Starts starts(map, memory);
    for (Link* at = starts.follow<Link, 1>(root, memory); at != nullptr;)
        at = starts.follow<Link, 1>(at->next, memory);
    return root;
}

inline Branch* receive(Branch* root, const Memory& memory, std::byte* map) {
    const Starts starts(map, memory);
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
    const Starts starts(map, memory);
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

inline Mesh* receive(Mesh* sent, const Memory& memory, std::byte* map) {
    const auto [places, taken, root] = Begun<Mesh, Taken>(sent, memory, map);
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
