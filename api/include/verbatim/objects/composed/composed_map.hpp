// A composed map says what lies where in the memory of a composed message (docs/composed.md). Each
// granule has one owner: an object, an array, or the links of a container. Both sides have one. On
// the receiver's side nothing of the message is believed but by it. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_cells.hpp>
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

    // From where it was composed; it may wrap.
    [[gnu::always_inline]] std::uint64_t distance() const noexcept {
        return reinterpret_cast<std::uint64_t>(bytes) - address;
    }
};

// A message whose references were checked.
struct ComposedBytes {
    ComposedMemory memory;
    std::uint64_t objects = 0;
};

// Objects side by side, that a reference leads to or that an array has.
struct ComposedReference {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;

    // Longer ones first, as they hold the others.
    friend bool operator<(const ComposedReference& a, const ComposedReference& b) noexcept {
        return a.offset != b.offset ? a.offset < b.offset : a.count > b.count;
    }
};

class ComposedMap {
  public:
    static constexpr std::uint64_t kGranule = ComposedCells::kGranule;
    struct Object {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        ComposedCell number = 0;  // of its type; 0: there is none
    };

    // `types`: those that several references may lead to, by number, from 1 on.
    void begin(std::span<const TypeKey* const> types, std::uint64_t used);
    // They stay where they are until the next begin().
    ComposedCells cells() noexcept { return {cells_.begin(), granules_}; }

    // Takes bytes for one owner. False: they do not start on a granule, or some of them have one.
    [[gnu::always_inline]] bool claim(std::uint64_t offset, std::uint64_t bytes) noexcept {
        if (offset % kGranule != 0) return false;
        ComposedCell* const first = cells_.begin() + offset / kGranule;
        const std::uint64_t count = (bytes + kGranule - 1) / kGranule;
        return count <= ComposedCells::kFew ? ComposedCells::take_few(first, count)
                                            : claim_many(first, count);
    }

    // Of any value.
    void fetch(std::uint64_t offset) const noexcept {
        __builtin_prefetch(
            reinterpret_cast<const void*>(reinterpret_cast<std::uint64_t>(cells_.begin()) +
                                          offset / kGranule * sizeof(ComposedCell)),
            1);
    }

    // One small object of a type that several references may lead to. It starts on a granule.
    template <class E>
    static constexpr bool kIsMarked = sizeof(E) <= 4096;
    template <class E>
    [[gnu::always_inline]] void mark(std::uint64_t offset, ComposedCell number) noexcept {
        static_assert(kIsMarked<E>);
        cells_[offset / kGranule] = number;
    }
    [[gnu::always_inline]] bool is_marked(std::uint64_t offset,
                                          ComposedCell number) const noexcept {
        return offset % kGranule == 0 && cells_[offset / kGranule] == number;
    }
    // Others of such a type.
    void place(std::uint64_t offset, std::uint64_t count, ComposedCell number);
    // Do so many of that type start there?
    bool starts(std::uint64_t offset, std::uint64_t count, ComposedCell number) const noexcept;
    // Do they lie there, whole or inside of others? `bytes`: of the message.
    bool holds(std::uint64_t offset, std::uint64_t count, const TypeKey& type,
               const std::byte* bytes) const noexcept;
    // The array that holds() last found something in.
    const Object& last_array() const noexcept { return last_; }
    const TypeKey& type_of(const Object& object) const noexcept {
        return *types_[object.number - 1u];
    }

  private:
    // Objects up to this length are found by their marks.
    static constexpr std::uint64_t kMarkedBytes = 4096;

    static bool claim_many(ComposedCell* first, std::uint64_t count) noexcept;
    Object find(std::uint64_t offset) const noexcept;
    std::uint64_t bytes_of(const Object& object) const noexcept {
        return object.count * type_of(object).bytes;
    }

    std::span<const TypeKey* const> types_;
    std::uint64_t granules_ = 0;
    Column<ComposedCell> cells_;              // by granule
    std::map<std::uint64_t, Object> arrays_;  // by offset: what marks do not tell of
    mutable Object last_;
};

}  // namespace verbatim::objects
