// floor: what one would write by hand for exactly this graph. All its objects lie in one block; the
// block is copied as it is, and the receiver walks the copy and moves every pointer by the distance
// of the two blocks. The walk knows which list owns which objects, so that nothing has to remember
// what was visited already, and nothing is checked. memcpy: the copy alone.
//
// Knows how libstdc++ lays out std::pmr::string and std::pmr::vector.
#include <cstring>
#include <type_traits>

#include <boost/pfr/core.hpp>

#include "packages_subject.hpp"

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

class PackagesMemcpy : public PackagesSubject {
  public:
    std::uint64_t bytes() const override { return source().used(); }
    void transfer() override { std::memcpy(receive_.data(), source().data(), source().used()); }
    bool verify() override {
        return std::memcmp(receive_.data(), source().data(), source().used()) == 0;
    }

  protected:
    WarmBlock receive_{source().used()};
};

class PackagesFloor final : public PackagesMemcpy {
  public:
    void transfer() override {
        PackagesMemcpy::transfer();
        Relocation(receive_.data() - source().data()).graph(*received());
    }
    bool verify() override { return equals_sent(*received()); }

  private:
    packages::Graph* received() const {
        const auto root = reinterpret_cast<const std::byte*>(&sent()) - source().data();
        return reinterpret_cast<packages::Graph*>(receive_.data() + root);
    }
};

}  // namespace

void add_packages_floors() {
    add_subject(kPackagesCase, "floor", [] { return std::make_unique<PackagesFloor>(); });
    add_subject(kPackagesCase, "memcpy", [] { return std::make_unique<PackagesMemcpy>(); });
}

}  // namespace bench_graph
