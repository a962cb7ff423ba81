// floor_special of packages: written by hand for exactly this graph. All its objects lie in one
// block; the block is copied as it is, and the receiver walks the copy and moves every pointer by
// the distance of the two blocks. The walk knows which list owns which objects, so that nothing has
// to remember what was visited already, and nothing is checked.
//
// Knows how libstdc++ lays out std::pmr::string and std::pmr::vector.
#include <cstring>
#include <type_traits>

#include <boost/pfr/core.hpp>

#include "../workloads/packages.hpp"
#include "special_subject.hpp"

namespace bench_graph {
namespace {

class Relocation {
  public:
    explicit Relocation(std::ptrdiff_t distance)
        : distance_(static_cast<std::uintptr_t>(distance)) {}

    // Elements of lists are moved with their list.
    void graph(packages::Graph& graph) const {
        fields(graph);
        for (packages::Maintainer* maintainer : graph.maintainers) fields(*maintainer);
        for (packages::Architecture* architecture : graph.architectures) fields(*architecture);
    }

  private:
    template <class T>
    void fields(T& object) const {
        boost::pfr::for_each_field(object, [this](auto& field) { this->value(field); });
    }

    template <class T>
    void value(T& value) const {
        if constexpr (std::is_pointer_v<T>) {
            if (value != nullptr) move(&value);
        } else if constexpr (std::is_aggregate_v<T>) {
            fields(value);
        } else if constexpr (!std::is_arithmetic_v<T> && !std::is_enum_v<T>) {
            container(value);
        }
    }

    // Both kinds start with their memory resource; a string's own buffer moves with it.
    void container(packages::Text& text) const {
        void** words = reinterpret_cast<void**>(&text);
        words[0] = std::pmr::null_memory_resource();
        move(&words[1]);
    }
    template <class T>
    void container(packages::List<T>& list) const {
        static_assert(sizeof(list) == 4 * sizeof(void*));
        void** words = reinterpret_cast<void**>(&list);
        words[0] = std::pmr::null_memory_resource();
        if (words[1] == nullptr) return;
        for (int word = 1; word < 4; ++word) move(&words[word]);
        for (T& element : list) value(element);
    }

    void move(void* pointer) const {
        std::uintptr_t address;
        std::memcpy(&address, pointer, sizeof address);
        address += distance_;
        std::memcpy(pointer, &address, sizeof address);
    }

    std::uintptr_t distance_;
};

class PackagesFloor final : public SpecialFloor<Packages> {
  public:
    using SpecialFloor::SpecialFloor;
    std::uint64_t bytes() const override { return source().extent().size(); }
    void transfer() override {
        const std::byte* from = source().extent().data();
        std::memcpy(receive_.data(), from, bytes());
        Relocation(receive_.data() - from).graph(*received_);
    }

  private:
    const packages::Graph& received() override { return *received_; }
    WarmBlock receive_{source().extent().size()};
    packages::Graph* received_ = reinterpret_cast<packages::Graph*>(
        receive_.data() + (reinterpret_cast<const std::byte*>(&sent()) - source().extent().data()));
};

}  // namespace

void add_package_floors() {
    add_subject(kPackages[0].name, "floor_special",
                [] { return std::make_unique<PackagesFloor>(kPackages[0]); });
}

}  // namespace bench_graph
