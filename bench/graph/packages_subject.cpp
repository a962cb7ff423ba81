#include "packages_subject.hpp"

#include "packages/build_graph.hpp"
#include "packages/checksum.hpp"
#include "synthetic_status.hpp"

namespace bench_graph {

namespace {

constexpr std::size_t kPackages = 50'000;

class CountingMemory final : public std::pmr::memory_resource {
  public:
    std::size_t bytes() const noexcept { return bytes_; }

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        constexpr std::size_t kGranule = verbatim::Arena::kGranuleBytes;
        bytes_ += (bytes + kGranule - 1) / kGranule * kGranule;
        return memory_.allocate(bytes, alignment);
    }
    void do_deallocate(void*, std::size_t, std::size_t) override {}
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
        return this == &other;
    }

    std::pmr::monotonic_buffer_resource memory_;
    std::size_t bytes_ = 0;
};

}  // namespace

packages::Graph* make_package_graph(std::pmr::memory_resource& memory) {
    return packages::build_graph(package_database(), memory, kPackages);
}

std::size_t package_graph_bytes() {
    static const std::size_t bytes = [] {
        CountingMemory memory;
        make_package_graph(memory);
        return memory.bytes();
    }();
    return bytes;
}

GraphSum sum_of(const packages::Graph& graph) {
    const packages::Checksum checksum(graph);
    return {checksum.sum(), checksum.objects()};
}

}  // namespace bench_graph
