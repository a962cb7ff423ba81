// What both demo programs print about a graph. Equal totals mean that the receiver has what the
// sender had.
#pragma once

#include <cstdint>
#include <string>

#include "packages/graph.hpp"

namespace packages {

struct Totals {
    std::uint64_t packages = 0;     // with at least one version
    std::uint64_t other_names = 0;  // virtual, or only mentioned
    std::uint64_t versions = 0;
    std::uint64_t maintainers = 0;
    // Dependencies, of every kind, whose target has a version or a provider.
    std::uint64_t edges = 0;
    // Entries of all required_by lists, resolved or not.
    std::uint64_t reverse_edges = 0;
    // See longest_chain().
    std::uint64_t longest_chain = 0;
    std::uint64_t objects = 0;   // whatever has fields, also in lists; see Checksum
    std::uint64_t checksum = 0;  // over all fields of all objects

    bool operator==(const Totals&) const = default;
};

Totals totals(const Graph& graph);

// The number of packages in the longest chain in which each one needs the next; packages that need
// each other in a circle count as one. Exactly: the most nodes on a path in the condensation of the
// directed graph with
//     P -> Q  iff  a version of P depends or pre-depends on Q, or on something that a version of Q
//     provides,
// where P and Q have versions. Version constraints are not evaluated.
std::uint64_t longest_chain(const Graph& graph);

// "packages=820\nversions=...", one line each, in a fixed order; the checksum in hexadecimal.
std::string to_text(const Totals& totals);

}  // namespace packages
