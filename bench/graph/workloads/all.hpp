// The cases of graphs that are measured by processor time for an object.
#pragma once

#include "links.hpp"
#include "meshes.hpp"
#include "networks.hpp"
#include "packages.hpp"
#include "sequences.hpp"

namespace bench_graph {

template <class Visit>
void for_each_sequence(Visit visit) {
    visit(Points{{"points_2^20"}});
    visit(Points{{"points_2^20_shuffled"}, Order::shuffled});
    visit(Points{{"points_2^20_heap", Place::heap}});
    visit(Pairs{{"pairs_2^20"}});
    visit(Pairs{{"pairs_2^20_heap", Place::heap}});
}

template <class Visit>
void for_each_linked(Visit visit) {
    visit(List{{"list_10^6"}});
    visit(List{{"list_10^6_heap", Place::heap}});
    visit(List{{"list_10^6_shuffled"}, Order::shuffled});
    visit(Tree{{"tree_2^20"}});
    visit(Tree{{"tree_2^20_heap", Place::heap}});
    visit(Cyclic{{"cyclic_100k"}});
    visit(Cyclic{{"cyclic_100k_heap", Place::heap}});
}

template <class Visit>
void for_each_mesh(Visit visit) {
    visit(Meshes<Mesh>{{"mesh_2^16"}});
    visit(Meshes<MeshFacesFirst>{{"mesh_2^16_faces_first"}});
    visit(Meshes<MeshPointerFirst>{{"mesh_2^16_pointer_first"}});
}

template <class Visit>
void for_each_network(Visit visit) {
    visit(Network{{"network_250k"}});
    visit(Network{{"network_250k_heap", Place::heap}});
}

template <class Visit>
void for_each_graph(Visit visit) {
    for (const Packages& packages : kPackages) visit(packages);
    for_each_sequence(visit);
    for_each_linked(visit);
    for_each_mesh(visit);
    for_each_network(visit);
}

// Those that are sent as composed messages, too.
template <class Visit>
void for_each_composed(Visit visit) {
    visit(kPackages[0]);
    for_each_sequence(visit);
    for_each_linked(visit);
    visit(Meshes<Mesh>{{"mesh_2^16"}});
    for_each_network(visit);
}

// First transfers, beside the warm ones of the case without "_cold".
template <class Visit>
void for_each_cold(Visit visit) {
    visit(Points{{"points_2^20_cold"}});
    visit(Points{{"points_2^20_heap_cold", Place::heap}});
    visit(List{{"list_10^6_cold"}});
    visit(Meshes<Mesh>{{"mesh_2^16_cold"}});
}

}  // namespace bench_graph
