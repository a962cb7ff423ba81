// Checks by hand of composed messages, as a receiver would write them for one workload. Each
// reference leads into the message, each object lies where nothing else does, and addresses are
// moved to where the copy lies. A start map has one word for each granule of 8 bytes, or one bit
// where no two references may lead to the same object.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <stdexcept>
#include <vector>

#include <verbatim/objects/composed/composed_map.hpp>

namespace bench_graph::by_hand {

inline void check(bool right) {
    if (!right) [[unlikely]]
        throw std::runtime_error("composed floor: the message is damaged");
}

using Memory = verbatim::objects::ComposedMemory;
inline constexpr std::uint64_t kHead = verbatim::objects::ComposedHead::kBytes;

// Where an address of the sender leads to.
class Places {
  public:
    explicit Places(const Memory& memory) : memory_(memory) {}
    template <class T>
    [[gnu::always_inline]] std::uint64_t of(const void* address, std::uint64_t count = 1) const {
        const std::uint64_t at = reinterpret_cast<std::uint64_t>(address) - memory_.address;
        check(at < memory_.used && at % alignof(T) == 0 &&
              count <= (memory_.used - at) / sizeof(T));
        return at;
    }
    bool has(std::uint64_t at, std::uint64_t bytes) const { return bytes <= memory_.used - at; }
    // Is that the sender's address of what lies here?
    bool leads_to(std::uint64_t address, const void* here) const {
        return address - memory_.address ==
               static_cast<std::uint64_t>(static_cast<const std::byte*>(here) - memory_.bytes);
    }
    template <class T>
    T* at(std::uint64_t offset) const {
        return reinterpret_cast<T*>(memory_.bytes + offset);
    }

  private:
    Memory memory_;
};

// The first word of an object has its type's number, the others are taken.
class Starts {
  public:
    Starts(std::byte* map, const Memory& memory)
        : words_(reinterpret_cast<std::uint16_t*>(map)), granules_(memory.used / 8) {
        std::memset(map, 0, granules_ * sizeof *words_ + 16);
        std::fill_n(words_, kHead / 8, std::uint16_t{1});
    }
    // The object that the field leads to, moved; null if it was met before, or the field is null.
    template <class T, std::uint16_t number>
    [[gnu::always_inline]] T* follow(T*& field, const Memory& memory) const {
        const auto address = reinterpret_cast<std::uint64_t>(field);
        if (address == 0) return nullptr;
        const std::uint64_t granule = std::rotr(address - memory.address, 3);
        check(granule < granules_ && sizeof(T) / 8 <= granules_ - granule);
        field = reinterpret_cast<T*>(memory.bytes + granule * 8);
        std::uint16_t* const word = words_ + granule;
        if (*word == number) return nullptr;
        check(take<T, number>(word));
        return field;
    }

    // Bytes that no reference leads to the start of.
    [[gnu::always_inline]] void take(std::uint64_t offset, std::uint64_t bytes) const {
        check(offset % 8 == 0);
        check(take(words_ + offset / 8, (bytes + 7) / 8, kTaken));
    }

  private:
    static constexpr std::uint16_t kTaken = 0x8000;

    static bool take(std::uint16_t* words, std::uint64_t count, std::uint16_t first) {
        std::uint16_t any = 0;
        for (std::uint64_t i = 0; i < count; ++i) any |= words[i];
        if (any != 0) return false;
        std::fill_n(words, count, kTaken);
        words[0] = first;
        return true;
    }
    template <class T, std::uint16_t number>
    [[gnu::always_inline]] static bool take(std::uint16_t* word) {
        constexpr std::size_t kBytes = sizeof(T) / 8 * 2;
        if constexpr (kBytes > 16) return take(word, sizeof(T) / 8, number);
        std::uint64_t first = 0, second = 0;
        constexpr std::size_t kFirst = std::bit_floor(std::min<std::size_t>(kBytes, 8));
        std::memcpy(&first, word, kFirst);
        std::memcpy(&second, word + kFirst / 2, kBytes - kFirst);
        if ((first | second) != 0) return false;
        first = 0x8000'8000'8000'0000u | number;
        second = 0x8000'8000'8000'8000u;
        std::memcpy(word, &first, kFirst);
        std::memcpy(word + kFirst / 2, &second, kBytes - kFirst);
        return true;
    }

    std::uint16_t* words_;
    std::uint64_t granules_;
};

// For objects with one owner each.
class Taken {
  public:
    Taken(std::byte* map, const Memory& memory) : words_(reinterpret_cast<std::uint64_t*>(map)) {
        std::memset(map, 0, memory.used / 64 + 16);
        take(0, kHead);
    }
    [[gnu::always_inline]] void take(std::uint64_t offset, std::uint64_t bytes) const {
        check(offset % 8 == 0);
        const std::uint64_t first = offset / 8, count = (bytes + 7) / 8;
        if (first % 64 + count > 64) return take_many(first, first + count);
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << first % 64;
        check((words_[first / 64] & mask) == 0);
        words_[first / 64] |= mask;
    }

  private:
    void take_many(std::uint64_t first, std::uint64_t end) const {
        while (first < end) {
            const std::uint64_t count = std::min(64 - first % 64, end - first);
            const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << first % 64;
            check((words_[first / 64] & mask) == 0);
            words_[first / 64] |= mask;
            first += count;
        }
    }
    std::uint64_t* words_;
};

// What a traversal begins with. The root has its place. `Owners`: Taken, or Starts where references
// may lead to one object.
template <class Root, class Owners>
struct Begun {
    const Places places;
    const Owners owners;
    Root* const root;

    Begun(const Root* sent, const Memory& memory, std::byte* map)
        : places(memory),
          owners(map, memory),
          root(places.template at<Root>(places.template of<Root>(sent))) {
        owners.take(static_cast<std::uint64_t>(reinterpret_cast<std::byte*>(root) - memory.bytes),
                    sizeof(Root));
    }
};

// A word of a container, whose own members are of other types.
using AnyWord [[gnu::may_alias]] = std::uint64_t;

inline std::uint64_t no_resource() {
    return reinterpret_cast<std::uint64_t>(std::pmr::null_memory_resource());
}
// Moves a vector, whose elements nothing else may have: `owners` takes them. How many bytes.
template <class T>
[[gnu::always_inline]] inline std::uint64_t move_vector(std::pmr::vector<T>& vector,
                                                        const Places& places, const auto& owners) {
    AnyWord* const fields = reinterpret_cast<AnyWord*>(&vector);
    const std::uint64_t bytes = fields[2] - fields[1];
    check(bytes % sizeof(T) == 0);
    fields[0] = no_resource();
    if (bytes == 0) {
        fields[1] = fields[2] = fields[3] = 0;
        return 0;
    }
    const auto at =
        places.template of<T>(reinterpret_cast<const void*>(fields[1]), bytes / sizeof(T));
    owners.take(at, bytes);
    fields[1] = reinterpret_cast<std::uint64_t>(places.template at<T>(at));
    fields[2] = fields[3] = fields[1] + bytes;
    return bytes;
}
// Moves a string, whose characters may lie in itself. Its holder is in its place.
[[gnu::always_inline]] inline void move_text(std::pmr::string& text, const Places& places,
                                             const auto& owners) {
    AnyWord* const fields = reinterpret_cast<AnyWord*>(&text);
    const std::uint64_t size = fields[2];
    char* letters = reinterpret_cast<char*>(fields + 3);
    if (!places.leads_to(fields[1], letters)) {
        const auto at = places.template of<char>(reinterpret_cast<const void*>(fields[1]), size);
        check(places.has(at, size + 1));
        owners.take(at, size + 1);
        letters = places.template at<char>(at);
        fields[3] = size;
    }
    check((fields[3] == size || size < 16) && letters[size] == 0);
    fields[0] = no_resource();
    fields[1] = reinterpret_cast<std::uint64_t>(letters);
}

// An array whose elements others point to.
template <class T>
class Array {
  public:
    // Moves the vector.
    Array(std::pmr::vector<T>& vector, const Places& places, const auto& owners)
        : sent_(reinterpret_cast<std::uint64_t>(vector.data())),
          count_(move_vector(vector, places, owners) / sizeof(T)),
          first_(vector.data()) {}
    [[gnu::always_inline]] void move(T*& field) const {
        if (field == nullptr) return;
        const std::uint64_t bytes = reinterpret_cast<std::uint64_t>(field) - sent_;
        check(bytes % sizeof(T) == 0 && bytes / sizeof(T) < count_);
        field = first_ + bytes / sizeof(T);
    }

  private:
    const std::uint64_t sent_;
    const std::uint64_t count_;
    T* const first_;
};

}  // namespace bench_graph::by_hand
