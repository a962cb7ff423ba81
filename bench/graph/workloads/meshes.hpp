// An index-heavy model: a half-edge mesh of 2^16 quads on a torus, three arrays whose elements
// point into each other's, in several orders of discovery. Numbers are per reference.
#pragma once

#include <tuple>
#include <vector>

#include <verbatim/objects/describe/composed_marking.hpp>

#include "workload.hpp"

namespace bench_graph {

struct HalfEdge;
struct Vertex {
    double x = 0, y = 0, z = 0;
    HalfEdge* edge = nullptr;
};
struct Face {
    HalfEdge* edge = nullptr;
};
struct HalfEdge {
    HalfEdge* next = nullptr;
    HalfEdge* twin = nullptr;
    Vertex* vertex = nullptr;  // where it begins
    Face* face = nullptr;
};
// The arrays, then what leads into them.
struct Mesh {
    std::pmr::vector<Vertex> vertices;
    std::pmr::vector<HalfEdge> edges;  // four for each face, in its order
    std::pmr::vector<Face> faces;
};
struct MeshFacesFirst {
    std::pmr::vector<Face> faces;
    std::pmr::vector<HalfEdge> edges;
    std::pmr::vector<Vertex> vertices;
};
// Leads to the inside of an array before the array itself.
struct MeshPointerFirst {
    HalfEdge* middle = nullptr;
    std::pmr::vector<Vertex> vertices;
    std::pmr::vector<HalfEdge> edges;
    std::pmr::vector<Face> faces;
};

inline constexpr std::size_t kSide = 256, kFaces = kSide * kSide, kEdges = 4 * kFaces;
inline constexpr std::size_t kReferences = 4 * kEdges + 2 * kFaces;
inline constexpr std::size_t kMeshBytes =
    kFaces * (sizeof(Vertex) + sizeof(Face)) + kEdges * sizeof(HalfEdge);

template <class MeshType>
struct Meshes : Workload {
    using Root = MeshType;
    using Targets = std::tuple<Vertex, HalfEdge, Face>;

    std::uint64_t objects() const { return kReferences; }
    std::size_t bytes() const { return kMeshBytes + 3 * 4096; }
    MeshType* make(auto& memory) const {
        auto* mesh = make_in(memory, empty(resource_of(memory)));
        mesh->vertices.resize(kFaces);
        mesh->edges.resize(kEdges);
        mesh->faces.resize(kFaces);
        for (std::size_t row = 0; row < kSide; ++row)
            for (std::size_t column = 0; column < kSide; ++column) set_quad(*mesh, row, column);
        if constexpr (requires { mesh->middle; }) mesh->middle = &mesh->edges[kEdges / 2];
        return mesh;
    }

  private:
    static MeshType empty(std::pmr::memory_resource* memory) {
        const std::pmr::vector<Vertex> vertices(memory);
        const std::pmr::vector<HalfEdge> edges(memory);
        const std::pmr::vector<Face> faces(memory);
        if constexpr (std::is_same_v<MeshType, Mesh>)
            return {{vertices, memory}, {edges, memory}, {faces, memory}};
        else if constexpr (std::is_same_v<MeshType, MeshFacesFirst>)
            return {{faces, memory}, {edges, memory}, {vertices, memory}};
        else
            return {nullptr, {vertices, memory}, {edges, memory}, {faces, memory}};
    }
    // Of the face in a row and a column of the torus.
    static std::size_t at(std::size_t row, std::size_t column) {
        return row % kSide * kSide + column % kSide;
    }
    static void set_quad(MeshType& mesh, std::size_t row, std::size_t column) {
        const std::size_t face = at(row, column);
        HalfEdge* const edges = &mesh.edges[4 * face];
        const auto other = [&](std::size_t r, std::size_t c, std::size_t side) {
            return &mesh.edges[4 * at(r, c) + side];
        };
        mesh.faces[face] = {edges};
        mesh.vertices[face] = {static_cast<double>(row), static_cast<double>(column), 0, edges};
        // Sides: above, right, below, left.
        const std::size_t corners[] = {at(row, column), at(row, column + 1),
                                       at(row + 1, column + 1), at(row + 1, column)};
        HalfEdge* const twins[] = {other(row + kSide - 1, column, 2), other(row, column + 1, 3),
                                   other(row + 1, column, 0), other(row, column + kSide - 1, 1)};
        for (std::size_t side = 0; side < 4; ++side)
            edges[side] = {edges + (side + 1) % 4, twins[side], &mesh.vertices[corners[side]],
                           &mesh.faces[face]};
    }
};

}  // namespace bench_graph

VERBATIM_COMPOSED(bench_graph::Mesh);
