#include "packages.hpp"

#include "packages/build_graph.hpp"
#include "packages/checksum.hpp"
#include "synthetic_status.hpp"

namespace bench_graph {

namespace {

constexpr std::size_t kPackageCount = 50'000;

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

packages::Graph* Packages::make(std::pmr::memory_resource& memory) const {
    return packages::build_graph(package_database(), memory, kPackageCount);
}

std::uint64_t Packages::objects() const {
    static const std::uint64_t count = [this] {
        std::pmr::monotonic_buffer_resource memory;
        return packages::Checksum(*make(memory)).objects();
    }();
    return count;
}

std::size_t Packages::bytes() const {
    static const std::size_t bytes = [this] {
        CountingMemory memory;
        make(memory);
        return memory.bytes() + 4096;
    }();
    return bytes;
}

}  // namespace bench_graph
