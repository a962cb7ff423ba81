// The targets say what is known of the place that a pointer leads to. It is new, or has a copy, or
// covers objects that were placed before it. Of the latter they learn, so that the next walk meets
// the whole first. Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <verbatim/core/arena.hpp>
#include <verbatim/objects/graph/claims.hpp>
#include <verbatim/objects/graph/placement.hpp>

namespace verbatim::objects {

// Objects of one type side by side in the sender's memory.
struct Extent {
    std::uint64_t address = 0;
    std::uint64_t count = 0;
    std::uint16_t number = 0;     // of the type, in the closure
    std::uint64_t reference = 0;  // that led there, for messages

    bool covers_same(const Extent& other) const noexcept {
        return address == other.address && count == other.count && number == other.number;
    }
};

// A function object: a function of this name beside a user's type is not found in its place.
inline constexpr auto address_of = [](const void* object) noexcept {
    return reinterpret_cast<std::uint64_t>(object);
};

// Of the words of E's objects. Types of open graphs get their numbers at run time.
template <class Types, class E>
inline constexpr Claims::Word kClaimTag = [] {
    if constexpr (Types::kIsOpen)
        return Claims::Word{0};
    else
        return ClaimWords::tag_of(Types::template number_of<E>());
}();

class Targets {
  public:
    explicit Targets(const Arena& arena) : claims(arena), arena_(arena) {}

    // Forgets everything: another graph, whose types have these numbers.
    void begin(std::span<const TypeKey* const> types);
    // Forgets what this walk has placed, and knows what it has learned.
    void begin_walk();

    enum class Met : std::uint8_t { fresh, seen, covers };
    struct Meeting {
        Met met = Met::fresh;
        std::uint64_t offset = 0;  // seen
        Placement::Object object;  // seen: that it lies in
        Held held = Held::now;     // by that
    };
    // Throws Error(bad_pointer): freed arena memory, or types that contradict each other.
    Meeting meet(const Extent& wanted);
    // The same, but only whether it was met. One object is most likely that part of another.
    Meeting look(const Extent& wanted, const Placement::Part& likely = {}) noexcept;
    // What the word of a granule tells at once: one whole object of that type starts there. Its
    // placement is read only where the word has no tag.
    template <Claims::Word Tag>
    [[gnu::always_inline]] bool starts(Claims::Word word, std::uint16_t number,
                                       std::uint64_t& offset) const noexcept {
        if (!ClaimWords::names_place(word)) return false;
        offset = ClaimWords::offset_of(word, 0);
        return ClaimWords::says_start_of<Tag>(word) || placement.starts(offset, number);
    }
    // Unoptimised builds refuse pointers to memory that cannot be read; outside of arenas pointers
    // are the caller's contract. It asks the kernel for each page, so optimised programs do it only
    // with VERBATIM_CHECK_POINTERS=1. Throws Error(bad_pointer).
    void check_readable(const Extent& wanted);
#if defined(VERBATIM_CHECK_POINTERS)
    static constexpr bool kChecksReadable = VERBATIM_CHECK_POINTERS != 0;
#elif defined(NDEBUG) || defined(__OPTIMIZE__)
    static constexpr bool kChecksReadable = false;
#else
    static constexpr bool kChecksReadable = true;
#endif

    // An object was met that covers others: this walk is void, but goes on to learn of all of them.
    bool is_void() const noexcept { return void_; }
    // True the first time after one of them was met.
    bool take_news() noexcept { return std::exchange(news_, false); }
    bool has_containers() const noexcept { return !containers_.empty(); }
    // The one that was learned of and holds the address; null if there is none.
    const Extent* container_of(std::uint64_t address) const noexcept;

    Claims claims;
    Placement placement;

  private:
    Meeting meet_in_place(const Extent& wanted, std::uint64_t offset,
                          const Placement::Object& object);
    void learn(Extent container);
    bool joins(const Extent& one, const Extent& other) const noexcept;
    bool is_readable(std::uint64_t address) noexcept;
    [[noreturn]] void refuse(const Extent& wanted, const std::string& cause) const;
    const TypeKey& type_of(const Extent& extent) const noexcept {
        return *types_[extent.number - 1u];
    }
    std::uint64_t bytes_of(const Extent& extent) const noexcept {
        return extent.count * type_of(extent).bytes;
    }

    const Arena& arena_;
    std::span<const TypeKey* const> types_;
    std::map<std::uint64_t, Extent> containers_;  // by address
    bool void_ = false;
    bool news_ = false;
    // Pages that this walk found to be readable.
    std::array<std::uint64_t, 512> readable_{};
    bool has_readable_ = false;
};

}  // namespace verbatim::objects
