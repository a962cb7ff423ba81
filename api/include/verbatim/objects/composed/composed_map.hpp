// A composed map says what lies where in the memory of a composed message (docs/composed.md). Each
// granule has one owner: an object, an array, or the links of a container. Both sides have one. On
// the receiver's side nothing of the message is believed but by it. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

// The start of the message's bytes. Objects follow.
struct ComposedHead {
    static constexpr std::uint64_t kBytes = 64;
    std::uint64_t address = 0;  // of this head, in the process that composed it
    std::uint64_t root = 0;     // offset
};
static_assert(sizeof(ComposedHead) <= ComposedHead::kBytes);

// A message's bytes as they lie here. References in it mean addresses from `address` on.
struct ComposedMemory {
    std::byte* bytes = nullptr;
    std::uint64_t used = 0;
    std::uint64_t address = 0;
};

class ComposedMap {
  public:
    // Not kImageGranule: std::allocate_shared() has its objects behind 24 bytes.
    static constexpr std::uint64_t kGranule = 8;
    static constexpr std::uint64_t kOutside = ~std::uint64_t{0};
    struct Object {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        std::uint16_t number = 0;  // of its type; 0: there is none
    };

    // `types`: those that several references may lead to, by number, from 1 on.
    void begin(std::span<const TypeKey* const> types, std::uint64_t used);

    // The offset of `count` objects, or kOutside: they are not all in the message, or not aligned.
    // `distance`: from the start of the message, of any value.
    template <class E>
    [[gnu::always_inline]] std::uint64_t locate(std::uint64_t distance,
                                                std::uint64_t count) const noexcept {
        if (distance >= used_ || distance % alignof(E) != 0) return kOutside;
        const std::uint64_t room = used_ - distance;
        if (count == 1 ? room < sizeof(E) : count > room / sizeof(E)) return kOutside;
        return distance;
    }
    // Takes bytes for one owner. False: they do not start on a granule, or some of them have one.
    [[gnu::always_inline]] bool claim(std::uint64_t offset, std::uint64_t bytes) noexcept {
        if (offset % kGranule != 0) return false;
        const std::uint64_t first = offset / kGranule, bit = first % 64;
        const std::uint64_t count = (bytes + kGranule - 1) / kGranule;
        if (bit + count > 64) return claim_words(first, first + count);
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - count)) << bit;
        std::uint64_t& word = taken_[first / 64];
        if ((word & mask) != 0) return false;
        word |= mask;
        return true;
    }

    // One small object of a type that several references may lead to. It starts on a granule.
    template <class E>
    static constexpr bool kIsMarked = sizeof(E) <= 4096;
    template <class E>
    [[gnu::always_inline]] void mark(std::uint64_t offset, std::uint16_t number) noexcept {
        static_assert(kIsMarked<E>);
        marks_[offset / kGranule] = number;
    }
    [[gnu::always_inline]] bool is_marked(std::uint64_t offset,
                                          std::uint16_t number) const noexcept {
        return offset % kGranule == 0 && marks_[offset / kGranule] == number;
    }
    // Others of such a type.
    void place(std::uint64_t offset, std::uint64_t count, std::uint16_t number);
    // Do so many of that type start there?
    bool starts(std::uint64_t offset, std::uint64_t count, std::uint16_t number) const noexcept;
    // Do they lie there, whole or inside of others? `bytes`: of the message.
    bool holds(std::uint64_t offset, std::uint64_t count, const TypeKey& type,
               const std::byte* bytes) const noexcept;
    // The array that holds() last found something in.
    const Object& last_array() const noexcept { return last_; }
    const TypeKey& type_of(const Object& object) const noexcept {
        return *types_[object.number - 1];
    }

  private:
    // Objects up to this length are found by their marks.
    static constexpr std::uint64_t kMarkedBytes = 4096;

    bool claim_words(std::uint64_t first, std::uint64_t end) noexcept;
    Object find(std::uint64_t offset) const noexcept;
    std::uint64_t bytes_of(const Object& object) const noexcept {
        return object.count * type_of(object).bytes;
    }

    std::span<const TypeKey* const> types_;
    std::uint64_t used_ = 0;
    Column<std::uint64_t> taken_;             // a bit for each granule
    Column<std::uint16_t> marks_;             // by granule: the type of one small object
    std::map<std::uint64_t, Object> arrays_;  // by offset: the others
    mutable Object last_;
};

}  // namespace verbatim::objects
