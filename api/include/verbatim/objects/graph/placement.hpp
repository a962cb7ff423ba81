// The placement says which object of an image starts where, of the types that several references
// may lead to. So an offset can be checked to be the place of an object of its type, also inside
// another one. A 16-bit number for each granule names the type that starts there; arrays and
// objects of more than 4 KiB are listed beside. Both sides have one. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/graph/image.hpp>
#include <verbatim/objects/type_info.hpp>

namespace verbatim::objects {

class Placement {
    static constexpr std::uint16_t kListed = 0x8000;

  public:
    // One object, or an array that starts there.
    struct Object {
        std::uint64_t offset = 0;
        std::uint64_t count = 0;
        std::uint16_t number = 0;  // of its type; 0: there is none
    };

    // `types`: by number, from 1 on.
    void begin(std::span<const TypeKey* const> types) noexcept;

    // One object of type E. Objects are placed in the order of the image, each in granules of its
    // own.
    template <class E>
    [[gnu::always_inline]] void place_one(std::uint64_t offset, std::uint16_t number) {
        if constexpr (sizeof(E) > kSearchedBytes) return place(offset, 1, number);
        const std::uint64_t granule = offset / kImageGranule;
        if (granule >= cleared_) clear_to(granule);
        marks_[granule] = number;
    }
    void place(std::uint64_t offset, std::uint64_t count, std::uint16_t number);
    // `count` objects of E, each on the next granule that is free.
    template <class E>
    [[gnu::always_inline]] void place_run(std::uint64_t offset, std::uint64_t count,
                                          std::uint16_t number) {
        static_assert(sizeof(E) <= kSearchedBytes);
        const std::uint64_t granule = offset / kImageGranule;
        const std::uint64_t last = granule + (count - 1) * kStep<E>;
        if (last >= cleared_) clear_to(last);
        for (std::uint64_t i = 0; i < count; ++i) marks_[granule + i * kStep<E>] = number;
    }

    // Does one object of that type start at `offset`?
    [[gnu::always_inline]] bool starts(std::uint64_t offset, std::uint16_t number) const noexcept {
        const std::uint64_t granule = offset / kImageGranule;
        return offset % kImageGranule == 0 && granule < cleared_ && marks_[granule] == number;
    }
    void prefetch(std::uint64_t offset) const noexcept {
        const std::uint64_t granule = offset / kImageGranule;
        if (granule < cleared_) __builtin_prefetch(&marks_[granule]);
    }
    // The object that starts at `offset` or is the last one before it.
    Object find(std::uint64_t offset) const noexcept;
    std::uint64_t bytes_of(const Object& object) const noexcept {
        return object.count * types_[object.number - 1]->bytes;
    }
    const TypeKey& type_of(const Object& object) const noexcept {
        return *types_[object.number - 1];
    }
    // Do `count` objects of `type` lie at `offset`? `bytes` are those of the object that was found
    // there: of the image or of the sender's memory.
    Held held(const Object& object, const std::byte* bytes, std::uint64_t offset,
              const TypeKey& type, std::uint64_t count) const noexcept;
    bool holds(const Object& object, const std::byte* bytes, std::uint64_t offset,
               const TypeKey& type, std::uint64_t count) const noexcept {
        return held(object, bytes, offset, type, count) != Held::no;
    }

    // So many bytes inside of any single object of a type lies one of another: an element of a list
    // in its node. Pointers to them are checked by a look at one mark.
    struct Part {
        std::uint64_t delta = 0;
        std::uint16_t number = kListed - 1;  // of the type; it has no object if there is none
    };
    [[gnu::always_inline]] bool has(const Part& part, std::uint64_t offset) const noexcept {
        return offset >= part.delta && starts(offset - part.delta, part.number);
    }

  private:
    static constexpr std::uint64_t kSearchedBytes = 4096;
    template <class E>
    static constexpr std::uint64_t kStep = (sizeof(E) + kImageGranule - 1) / kImageGranule;

    static constexpr std::uint64_t kReach = kSearchedBytes / kImageGranule;
    // Objects are mostly shorter than this. In views into a vector of 10^5 strings a whole reach of
    // empty marks took as long as the rest of a look.
    static constexpr std::uint64_t kNear = 16;
    static constexpr std::uint64_t kCounted = 32;

    void clear_to(std::uint64_t granule);
    // The end of the last granule before `at` that has a mark; `end` if none behind that has one.
    std::uint64_t marked_end(std::uint64_t at, std::uint64_t end) const noexcept;
    Object last_listed_before(std::uint64_t granule) const noexcept;

    std::span<const TypeKey* const> types_;
    Column<std::uint16_t> marks_;
    std::uint64_t cleared_ = 0;  // granules
    Column<Object> listed_;      // in order of the image
    // For each kCounted granules up to the last listed object, how many before them are listed.
    Column<std::uint64_t> listed_before_;
};

}  // namespace verbatim::objects
