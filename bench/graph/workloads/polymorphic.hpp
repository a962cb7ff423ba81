// A tree of two classes with virtual functions, in random order; and the same tree without them,
// with a field in the virtual table's place.
#pragma once

#include <cstdint>
#include <vector>

#include <verbatim/objects.hpp>

#include "workload.hpp"

namespace bench_graph {

struct Twig {
    virtual ~Twig() = default;
    virtual std::uint64_t weight() const { return value; }

    std::uint64_t value = 0;
    Twig* left = nullptr;
    Twig* right = nullptr;
};
VERBATIM_DESCRIBE(Twig, value, left, right)
struct Fork : Twig {
    std::uint64_t weight() const override { return value + 1; }
};
VERBATIM_DESCRIBE_DERIVED(Fork, (Twig))
struct Bud : Twig {
    std::uint64_t weight() const override { return value + 2; }
};
VERBATIM_DESCRIBE_DERIVED(Bud, (Twig))

struct PlainTwig {
    std::uint64_t weight() const { return value + kind; }

    std::uint64_t kind = 0;
    std::uint64_t value = 0;
    PlainTwig* left = nullptr;
    PlainTwig* right = nullptr;
};

// In the order of a walk from left to right, without recursion.
template <class T>
std::uint64_t sum_of_tree(const T& root) {
    std::uint64_t sum = 0;
    std::vector<const T*> left{&root};
    while (!left.empty()) {
        const T* const twig = left.back();
        left.pop_back();
        if (twig == nullptr) continue;
        sum = sum * 0x9e3779b97f4a7c15u + twig->weight();
        left.push_back(twig->right);
        left.push_back(twig->left);
    }
    return sum;
}
inline std::uint64_t sum_of(const Twig& root) { return sum_of_tree(root); }
inline std::uint64_t sum_of(const PlainTwig& root) { return sum_of_tree(root); }

// Complete and binary, allocated depth first.
template <class T>
struct Twigs : Workload {
    using Root = T;
    unsigned levels = 20;

    std::uint64_t objects() const { return (std::uint64_t{1} << levels) - 1; }
    std::size_t bytes() const { return objects() * 32 + 4096; }
    T* make(std::pmr::memory_resource& memory) const {
        std::uint64_t next = 0;
        return make(memory, levels, next);
    }

  private:
    static T* make(std::pmr::memory_resource& memory, unsigned levels, std::uint64_t& next) {
        if (levels == 0) return nullptr;
        T* const twig = make_one(memory, (next * 0x9e3779b97f4a7c15u) >> 63 != 0);
        twig->value = next++;
        twig->left = make(memory, levels - 1, next);
        twig->right = make(memory, levels - 1, next);
        return twig;
    }
    static T* make_one(std::pmr::memory_resource& memory, bool is_bud) {
        if constexpr (std::is_same_v<T, PlainTwig>)
            return make_in(memory, PlainTwig{is_bud ? 2u : 1u, 0, nullptr, nullptr});
        else
            return is_bud ? static_cast<T*>(make_in(memory, Bud{})) : make_in(memory, Fork{});
    }
};

}  // namespace bench_graph
