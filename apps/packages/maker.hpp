// Makes the graph's objects in a memory resource. Aggregates do not hand their allocator on to
// their members, so each member is given it by hand. Nothing is freed singly: the resource outlives
// the graph.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <new>
#include <string_view>
#include <utility>

#include "packages/graph.hpp"

namespace packages {

class Maker {
  public:
    explicit Maker(std::pmr::memory_resource& memory) : memory_(&memory) {}

    template <class T>
    T* make(T&& value) const {
        return ::new (memory_->allocate(sizeof(T), alignof(T))) T(std::move(value));
    }
    Text text(std::string_view value = {}) const { return Text(value, memory_); }
    template <class T>
    List<T> list(std::size_t capacity = 0) const {
        List<T> result(memory_);
        result.reserve(capacity);
        return result;
    }

    Graph* graph() const {
        return make(Graph{list<Package>(), list<Maintainer*>(), list<Architecture*>()});
    }
    Package package(std::string_view name) const {
        return {text(name), list<Version>(), list<Package*>(), list<Package*>()};
    }
    Maintainer* maintainer(std::string_view name, std::string_view email) const {
        return make(Maintainer{text(name), text(email), list<Package*>()});
    }
    Architecture* architecture(std::string_view name) const {
        return make(Architecture{text(name)});
    }

  private:
    std::pmr::memory_resource* memory_;
};

}  // namespace packages
