// An array of 1,024 persons with objects behind them, allocated depth first: the structures of
// Naos' table 2 (ATC'21, §3.1). (L0-L1-L2): so many objects on each level below an element.
#pragma once

#include <tuple>
#include <vector>

#include "workload.hpp"

namespace bench_graph {

inline constexpr std::size_t kPersons = 1024;

struct Leaf {
    std::uint64_t value = 0;
    std::uint64_t more = 0;
};
struct LeafParent {
    std::uint64_t value = 0;
    Leaf* leaf = nullptr;
};
struct Parent2 {
    std::uint64_t value = 0;
    Leaf* first = nullptr;
    Leaf* second = nullptr;
};
struct Grandparent {
    std::uint64_t value = 0;
    LeafParent* child = nullptr;
};

inline void fill(std::pmr::memory_resource&, Leaf&) {}
inline void fill(std::pmr::memory_resource& memory, LeafParent& parent) {
    parent.leaf = make_in(memory, Leaf{});
}
inline void fill(std::pmr::memory_resource& memory, Parent2& parent) {
    parent.first = make_in(memory, Leaf{});
    parent.second = make_in(memory, Leaf{});
}
inline void fill(std::pmr::memory_resource& memory, Grandparent& parent) {
    parent.child = make_in(memory, LeafParent{});
    fill(memory, *parent.child);
}

template <class Person>
struct PersonArray {
    std::pmr::vector<Person*> persons;
};

template <class Person>
struct Persons : Workload {
    using Root = PersonArray<Person>;
    std::size_t count = kPersons;

    std::uint64_t objects() const { return count; }
    std::size_t bytes() const { return count * 128 + 4096; }
    Root* make(std::pmr::memory_resource& memory) const {
        auto* array = make_in(memory, Root{std::pmr::vector<Person*>(&memory)});
        array->persons.reserve(count);
        for (std::size_t n = 0; n < count; ++n) {
            array->persons.push_back(make_in(memory, Person{n}));
            fill(memory, *array->persons.back());
        }
        return array;
    }
};

// (1-0-0), (1-1-0), (1-2-0), (1-1-1).
template <class Visit>
void for_each_persons(Visit visit) {
    visit(Persons<Leaf>{{"traversal_1-0-0"}});
    visit(Persons<LeafParent>{{"traversal_1-1-0"}});
    visit(Persons<Parent2>{{"traversal_1-2-0"}});
    visit(Persons<Grandparent>{{"traversal_1-1-1"}});
}

}  // namespace bench_graph
