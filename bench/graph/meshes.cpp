// The mesh case: a half-edge mesh of 2^16 quads on a torus, three arrays whose elements point into
// each other's. Numbers are per reference. verbatim.arena: sent as it is. floor: by hand, for this
// mesh alone: pointers become offsets from the one array that they can lead into, and back.
#include <cstring>
#include <memory_resource>
#include <optional>
#include <vector>

#include "subject.hpp"
#include "verbatim_pair.hpp"
#include "wire.hpp"

namespace bench_graph {
namespace {

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
struct Mesh {
    std::pmr::vector<Vertex> vertices;
    std::pmr::vector<HalfEdge> edges;  // four for each face, in its order
    std::pmr::vector<Face> faces;
};

constexpr std::size_t kSide = 256, kFaces = kSide * kSide, kEdges = 4 * kFaces;
constexpr std::size_t kReferences = 4 * kEdges + 2 * kFaces;
constexpr std::size_t kMeshBytes =
    kFaces * (sizeof(Vertex) + sizeof(Face)) + kEdges * sizeof(HalfEdge);

// Of the face in a row and a column of the torus.
std::size_t at(std::size_t row, std::size_t column) { return row % kSide * kSide + column % kSide; }

Mesh* make_mesh(std::pmr::memory_resource& memory) {
    auto* mesh = ::new (memory.allocate(sizeof(Mesh), alignof(Mesh)))
        Mesh{std::pmr::vector<Vertex>(kFaces, &memory), std::pmr::vector<HalfEdge>(kEdges, &memory),
             std::pmr::vector<Face>(kFaces, &memory)};
    for (std::size_t row = 0; row < kSide; ++row)
        for (std::size_t column = 0; column < kSide; ++column) {
            const std::size_t face = at(row, column);
            HalfEdge* const edges = &mesh->edges[4 * face];
            const auto other = [&](std::size_t r, std::size_t c, std::size_t side) {
                return &mesh->edges[4 * at(r, c) + side];
            };
            mesh->faces[face] = {edges};
            mesh->vertices[face] = {static_cast<double>(row), static_cast<double>(column), 0,
                                    edges};
            // Sides: above, right, below, left.
            const std::size_t corners[] = {at(row, column), at(row, column + 1),
                                           at(row + 1, column + 1), at(row + 1, column)};
            HalfEdge* const twins[] = {other(row + kSide - 1, column, 2), other(row, column + 1, 3),
                                       other(row + 1, column, 0),
                                       other(row, column + kSide - 1, 1)};
            for (std::size_t side = 0; side < 4; ++side)
                edges[side] = {edges + (side + 1) % 4, twins[side], &mesh->vertices[corners[side]],
                               &mesh->faces[face]};
        }
    return mesh;
}

// Equal in all numbers, and in where each pointer leads.
bool is_equal(const Vertex* vertices, const HalfEdge* edges, const Face* faces, const Mesh& sent) {
    for (std::size_t i = 0; i < kFaces; ++i)
        if (vertices[i].x != sent.vertices[i].x || vertices[i].y != sent.vertices[i].y ||
            vertices[i].edge - edges != sent.vertices[i].edge - sent.edges.data() ||
            faces[i].edge - edges != sent.faces[i].edge - sent.edges.data())
            return false;
    for (std::size_t i = 0; i < kEdges; ++i)
        if (edges[i].next - edges != sent.edges[i].next - sent.edges.data() ||
            edges[i].twin - edges != sent.edges[i].twin - sent.edges.data() ||
            edges[i].vertex - vertices != sent.edges[i].vertex - sent.vertices.data() ||
            edges[i].face - faces != sent.edges[i].face - sent.faces.data())
            return false;
    return true;
}

class MeshVerbatim final : public Subject {
  public:
    std::uint64_t objects() const override { return kReferences; }
    std::uint64_t bytes() const override { return pair_.bytes(); }
    void transfer() override {
        received_.reset();
        received_.emplace(pair_.transfer(*mesh_));
    }
    bool verify() override {
        const Mesh& mesh = **received_;
        return mesh.edges.size() == kEdges &&
               is_equal(mesh.vertices.data(), mesh.edges.data(), mesh.faces.data(), *mesh_);
    }

  private:
    VerbatimPair pair_{kMeshBytes};
    Mesh* mesh_ = make_mesh(pair_.arena());
    std::optional<verbatim::Received<Mesh>> received_;
};

// Pointers become those into arrays at other addresses.
template <class T>
void rebase(T*& pointer, const T* from, T* to) {
    pointer = to + (pointer - from);
}

struct Arrays {
    explicit Arrays(std::byte* image)
        : vertices(reinterpret_cast<Vertex*>(image)),
          edges(reinterpret_cast<HalfEdge*>(vertices + kFaces)),
          faces(reinterpret_cast<Face*>(edges + kEdges)) {}
    Vertex* vertices;
    HalfEdge* edges;
    Face* faces;
};

class MeshFloor final : public Subject {
  public:
    std::uint64_t objects() const override { return kReferences; }
    std::uint64_t bytes() const override { return kMeshBytes; }
    void transfer() override {
        const Arrays image(wire_.send_buffer());
        std::memcpy(image.vertices, mesh_->vertices.data(), kFaces * sizeof(Vertex));
        std::memcpy(image.edges, mesh_->edges.data(), kEdges * sizeof(HalfEdge));
        std::memcpy(image.faces, mesh_->faces.data(), kFaces * sizeof(Face));
        fix(Arrays(const_cast<std::byte*>(wire_.carry(kMeshBytes))));
    }
    bool verify() override {
        const Arrays arrays(received_);
        return is_equal(arrays.vertices, arrays.edges, arrays.faces, *mesh_);
    }

  private:
    // The sender's three base addresses, which would travel, tell what each pointer stands for.
    void fix(const Arrays& to) {
        received_ = reinterpret_cast<std::byte*>(to.vertices);
        const Vertex* vertices = mesh_->vertices.data();
        const HalfEdge* edges = mesh_->edges.data();
        const Face* faces = mesh_->faces.data();
        for (std::size_t i = 0; i < kFaces; ++i) {
            rebase(to.vertices[i].edge, edges, to.edges);
            rebase(to.faces[i].edge, edges, to.edges);
        }
        for (std::size_t i = 0; i < kEdges; ++i) {
            rebase(to.edges[i].next, edges, to.edges);
            rebase(to.edges[i].twin, edges, to.edges);
            rebase(to.edges[i].vertex, vertices, to.vertices);
            rebase(to.edges[i].face, faces, to.faces);
        }
    }
    WarmMemory memory_{kMeshBytes + 4096};
    Mesh* mesh_ = make_mesh(memory_);
    Wire wire_{kMeshBytes};
    std::byte* received_ = nullptr;
};

}  // namespace

void add_meshes() {
    add_subject("mesh_2^16", "verbatim.arena", [] { return std::make_unique<MeshVerbatim>(); });
    add_subject("mesh_2^16", "floor", [] { return std::make_unique<MeshFloor>(); });
}

}  // namespace bench_graph
