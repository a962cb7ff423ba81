// A checksum over a whole object graph: every field of every object that can be reached, and the
// graph's shape.
//
// The walk numbers objects in the order in which it first meets them, elements of a list when it
// meets the list; a pointer and an element contribute the object's number, never an address. So the
// sum is the same in every process, and it differs if a field differs, if two pointers to one
// object have become pointers to two equal objects, or if a pointer leads elsewhere. Fields are
// found by Boost.PFR: one that is added to a type is in the sum. No recursion over pointers.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <xxhash.h>
#include <boost/pfr/core.hpp>
#include <boost/unordered/unordered_flat_map.hpp>

namespace packages {

class Checksum {
  public:
    // Walks from `root`, which itself need not have been allocated.
    template <class T>
    explicit Checksum(const T& root) {
        number_of(std::addressof(root));
        value(root);
        while (!pending_.empty()) {
            const auto [object, visit] = pending_.back();
            pending_.pop_back();
            visit(*this, object);
        }
    }

    std::uint64_t sum() const noexcept { return sum_; }
    // Structs that were met: the root, what pointers lead to, elements of lists.
    std::uint64_t objects() const noexcept { return numbers_.size(); }

  private:
    using Visit = void (*)(Checksum&, const void*);

    template <class T>
    void value(const T& v) {
        if constexpr (std::is_pointer_v<T>) {
            pointer(v);
        } else if constexpr (std::is_enum_v<T>) {
            add(static_cast<std::uint64_t>(v));
        } else if constexpr (std::is_floating_point_v<T>) {
            add(std::bit_cast<std::uint64_t>(static_cast<double>(v)));
        } else if constexpr (std::is_integral_v<T>) {
            add(static_cast<std::uint64_t>(v));
        } else {
            composite(v);
        }
    }

    template <class Traits, class Allocator>
    void composite(const std::basic_string<char, Traits, Allocator>& text) {
        add(text.size());
        sum_ = XXH3_64bits_withSeed(text.data(), text.size(), sum_);
    }

    template <class T, class Allocator>
    void composite(const std::vector<T, Allocator>& list) {
        add(list.size());
        if constexpr (std::is_aggregate_v<T>)  // before what they hold leads to one of them
            for (const T& element : list) add(number_of(std::addressof(element)).first);
        for (const T& element : list) value(element);
    }

    template <class T>
    requires std::is_aggregate_v<T>
    void composite(const T& object) {
        boost::pfr::for_each_field(object, [this](const auto& field) { this->value(field); });
    }

    template <class T>
    void pointer(const T* target) {
        if (target == nullptr) return add(0);
        const auto [number, is_new] = number_of(target);
        add(number);
        if (!is_new) return;
        pending_.emplace_back(target, [](Checksum& self, const void* object) {
            self.value(*static_cast<const T*>(object));
        });
    }

    std::pair<std::uint64_t, bool> number_of(const void* object) {
        const auto [entry, is_new] = numbers_.try_emplace(object, numbers_.size() + 1);
        return {entry->second, is_new};
    }

    // The finaliser of splitmix64 over a running sum: order matters, each bit reaches all.
    void add(std::uint64_t word) noexcept {
        std::uint64_t z = sum_ + 0x9e3779b97f4a7c15u + word;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        sum_ = z ^ (z >> 31);
    }

    std::uint64_t sum_ = 0;
    boost::unordered_flat_map<const void*, std::uint64_t> numbers_;
    std::vector<std::pair<const void*, Visit>> pending_;
};

}  // namespace packages
