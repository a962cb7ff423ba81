// Counting.
#include "packages/totals.hpp"

#include <fmt/format.h>

#include "packages/checksum.hpp"

namespace packages {

namespace {

bool is_available(const Package& package) noexcept {
    return !package.versions.empty() || !package.provided_by.empty();
}

std::uint64_t resolved_edges(const Version& version) noexcept {
    std::uint64_t count = 0;
    for (const Dependency& dependency : version.dependencies)
        count += is_available(*dependency.target) ? 1u : 0u;
    return count;
}

}  // namespace

Totals totals(const Graph& graph) {
    Totals result;
    for (const Package& package : graph.packages) {
        ++(package.versions.empty() ? result.other_names : result.packages);
        result.versions += package.versions.size();
        result.reverse_edges += package.required_by.size();
        for (const Version& version : package.versions) result.edges += resolved_edges(version);
    }
    result.maintainers = graph.maintainers.size();
    result.longest_chain = longest_chain(graph);
    const Checksum checksum(graph);
    result.objects = checksum.objects();
    result.checksum = checksum.sum();
    return result;
}

std::string to_text(const Totals& t) {
    return fmt::format(
        "packages={}\nother_names={}\nversions={}\nmaintainers={}\nedges={}\nreverse_edges={}\n"
        "longest_chain={}\nobjects={}\nchecksum={:016x}\n",
        t.packages, t.other_names, t.versions, t.maintainers, t.edges, t.reverse_edges,
        t.longest_chain, t.objects, t.checksum);
}

}  // namespace packages
