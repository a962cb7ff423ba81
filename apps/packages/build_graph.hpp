// From records to the linked graph.
#pragma once

#include <cstddef>
#include <memory_resource>

#include "packages/database.hpp"
#include "packages/graph.hpp"

namespace packages {

// Builds the graph in `memory` and returns its root, which lives there too and is freed with it.
//
// If `at_least` is more than the database's packages, the whole set is repeated until the graph has
// that many packages with a version. In the k-th repetition (k = 2, 3, ...) every package name,
// also one that is only mentioned or provided, has "~k" appended, and all relations point inside
// the repetition. Maintainers are shared by all repetitions. '~' cannot stand in a real name, so
// nothing collides.
//
// Throws what `memory` throws when it is exhausted.
Graph* build_graph(const Database& database, std::pmr::memory_resource& memory,
                   std::size_t at_least = 0);

}  // namespace packages
