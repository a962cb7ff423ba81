// verbatim.arena: the graph lies in the sender's arena. verbatim.heap: on the ordinary heap, staged
// by copying.
#include <optional>

#include "packages_subject.hpp"
#include "verbatim_pair.hpp"

namespace bench_graph {
namespace {

enum class Residence { arena, heap };

class PackagesVerbatim final : public Subject {
  public:
    explicit PackagesVerbatim(Residence place)
        : graph_(make_package_graph(place == Residence::arena
                                        ? static_cast<std::pmr::memory_resource&>(pair_.arena())
                                        : heap_)),
          expected_(sum_of(*graph_)) {}

    std::uint64_t objects() const override { return expected_.objects; }
    std::uint64_t bytes() const override { return pair_.bytes(); }
    void transfer() override {
        received_.reset();
        received_.emplace(pair_.transfer(*graph_));
    }
    bool verify() override { return sum_of(**received_).sum == expected_.sum; }

  private:
    VerbatimPair pair_{package_graph_bytes()};
    // Each object in an allocation of its own, freed together.
    std::pmr::unsynchronized_pool_resource heap_;
    packages::Graph* graph_;
    GraphSum expected_;
    std::optional<verbatim::Received<packages::Graph>> received_;
};

}  // namespace

void add_packages_verbatim() {
    add_subject(kPackagesCase, "verbatim.arena",
                [] { return std::make_unique<PackagesVerbatim>(Residence::arena); });
    add_subject(kPackagesCase, "verbatim.heap",
                [] { return std::make_unique<PackagesVerbatim>(Residence::heap); });
}

}  // namespace bench_graph
