// floor_special of meshes: written by hand for exactly these three arrays. They are copied, and
// each pointer becomes one into the array that it can lead into.
#include <cstring>
#include <optional>

#include "../memory/wire.hpp"
#include "../workloads/all.hpp"
#include "special_subject.hpp"

namespace bench_graph {
namespace {

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

class MeshFloor final : public SpecialFloor<Meshes<Mesh>> {
  public:
    using SpecialFloor::SpecialFloor;
    std::uint64_t bytes() const override { return kMeshBytes; }
    void transfer() override {
        const Arrays image(wire_.send_buffer());
        std::memcpy(image.vertices, sent().vertices.data(), kFaces * sizeof(Vertex));
        std::memcpy(image.edges, sent().edges.data(), kEdges * sizeof(HalfEdge));
        std::memcpy(image.faces, sent().faces.data(), kFaces * sizeof(Face));
        received_ = const_cast<std::byte*>(wire_.carry(kMeshBytes));
        fix(Arrays(received_));
    }

  private:
    // The sender's three base addresses, which would travel, tell what each pointer stands for.
    void fix(const Arrays& to) const {
        const Vertex* vertices = sent().vertices.data();
        const HalfEdge* edges = sent().edges.data();
        const Face* faces = sent().faces.data();
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
    // Copies of the arrays, whose pointers lead into the copies.
    const Mesh& received() override {
        const Arrays from(received_);
        mesh_.emplace(Mesh{{from.vertices, from.vertices + kFaces},
                           {from.edges, from.edges + kEdges},
                           {from.faces, from.faces + kFaces}});
        for (Vertex& vertex : mesh_->vertices) rebase(vertex.edge, from.edges, mesh_->edges.data());
        for (Face& face : mesh_->faces) rebase(face.edge, from.edges, mesh_->edges.data());
        for (HalfEdge& edge : mesh_->edges) {
            rebase(edge.next, from.edges, mesh_->edges.data());
            rebase(edge.twin, from.edges, mesh_->edges.data());
            rebase(edge.vertex, from.vertices, mesh_->vertices.data());
            rebase(edge.face, from.faces, mesh_->faces.data());
        }
        return *mesh_;
    }

    Wire wire_{kMeshBytes};
    std::byte* received_ = nullptr;
    std::optional<Mesh> mesh_;
};

}  // namespace

void add_mesh_floors() {
    for_each_mesh([]<class W>(const W& workload) {
        if constexpr (std::is_same_v<W, Meshes<Mesh>>)
            add_subject(workload.name, "floor_special",
                        [=] { return std::make_unique<MeshFloor>(workload); });
    });
}

}  // namespace bench_graph
