// A workload is a kind of graph: its types, how it is made, and how large it is. Floors, peers and
// Verbatim take the same ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <utility>

#include "../memory/warm_memory.hpp"
#include "packages/checksum.hpp"

namespace bench_graph {

// Of the sender's objects, and of those that peers make; leased: on the heap, and sent under leases
// of a registration cache.
enum class Place { arena, heap, leased };
enum class Order { allocation, shuffled };

// The part of a workload that is data. Each one has, besides:
//   Root, the type of its root; Targets, a tuple of the types that raw pointers lead to;
//   make(memory), the graph, equal each time, some also in a message; objects(); bytes(), room for
//   all objects.
struct Workload {
    std::string name;
    Place place = Place::arena;
};

template <class T>
T* make_in(std::pmr::memory_resource& memory, T value) {
    return ::new (memory.allocate(sizeof(T), alignof(T))) T(std::move(value));
}
// The same of messages that are composed, which make their objects themselves.
template <class M>
concept Composes = requires(M& message) {
    message.resource();
};
template <class T>
T* make_in(Composes auto& message, T value) {
    return message.template make<T>(std::move(value));
}
inline std::pmr::memory_resource* resource_of(std::pmr::memory_resource& memory) { return &memory; }
std::pmr::memory_resource* resource_of(Composes auto& message) { return message.resource(); }
// The graph of a message. A workload that knows memory alone makes it there: then the message does
// not know where its objects lie, and its sender walks from the root.
template <class W>
typename W::Root* make_composed(const W& workload, Composes auto& message) {
    if constexpr (requires { workload.make(message); })
        return workload.make(message);
    else
        return workload.make(*message.resource());
}

inline std::unique_ptr<GraphMemory> make_memory(Place place, std::size_t bytes) {
    if (place != Place::arena) return std::make_unique<HeapMemory>();
    return std::make_unique<WarmMemory>(bytes);
}

// The same for equal graphs only: values, identities, and where each pointer leads.
template <class Root>
std::uint64_t sum_of(const Root& root) {
    return packages::Checksum(root).sum();
}

}  // namespace bench_graph
