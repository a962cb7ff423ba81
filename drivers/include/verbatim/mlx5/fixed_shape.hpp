// A shape describes a prepared operation at compile time. It has the number of units of a request,
// and makes the units that change from post to post, in registers or in place. A post may change
// remote address and key, inline bytes, elements or operands. All the rest was encoded when the
// operation was prepared. No state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>

namespace verbatim::mlx5 {

// -- Memory of the peer --

// An address, under the key that was prepared; or both.
struct RemoteMemory {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
};

// -- Payloads --

// A payload of `kBytes` bytes inside the WQE: 8, or any 16 and more. A post takes 8 bytes as a
// number (as they lie in memory). Longer payload it takes by address, and reads it before it
// returns.
template <std::uint32_t kBytes>
struct Inline {
    static_assert(kBytes == 8 || kBytes >= 16, "the copy moves 16 bytes at a time");
    static constexpr std::uint32_t kUnits = inline_units(kBytes), kInlineBytes = kBytes;
    static constexpr std::uint32_t kConstantUnits = 1;  // have bytes that patch() does not write
    static constexpr std::uint32_t kElements = 0;
    // True if a post also changes lengths and keys.
    template <class Variable>
    static constexpr bool kReplaces = false;

    template <std::size_t kFirst, class Wqe>
    [[gnu::always_inline]] static void compose(Wqe& wqe, const std::byte* payload) noexcept {
        wqe.template set_payload<kFirst, kBytes>(payload);
    }
    template <std::size_t kFirst, class Wqe>
    [[gnu::always_inline]] static void compose(Wqe& wqe, std::uint64_t payload) noexcept {
        static_assert(kBytes == sizeof payload);
        wqe.template set_payload<kFirst>(payload);
    }

    static void patch(std::byte* units, const std::byte* payload) noexcept {
        std::memcpy(units + sizeof(InlineHeader), payload, kBytes);
    }
    static void patch(std::byte* units, std::uint64_t payload) noexcept {
        static_assert(kBytes == sizeof payload);
        std::memcpy(units + sizeof(InlineHeader), &payload, sizeof payload);
    }
};

// `kCount` elements in registered memory. A post takes a function from an element's number to its
// address; or to an Element, where length and key change, too.
template <std::uint32_t kCount>
struct Gather {
    static_assert(kCount >= 1);
    static constexpr std::uint32_t kUnits = kCount, kInlineBytes = 0, kElements = kCount;
    static constexpr std::uint32_t kConstantUnits = kCount;
    template <class Address>
    static constexpr bool kReplaces =
        std::is_same_v<std::decay_t<std::invoke_result_t<Address&, std::uint32_t>>, Element>;

    template <std::size_t kFirst, class Wqe, class Address>
    [[gnu::always_inline]] static void compose(Wqe& wqe, Address&& address) noexcept {
        compose_each<kFirst>(wqe, address, std::make_index_sequence<kCount>{});
    }
    template <class Address>
    [[gnu::always_inline]] static void patch(std::byte* units, Address&& address) noexcept {
        patch_each(units, address, std::make_index_sequence<kCount>{});
    }

  private:
    template <std::size_t kFirst, class Wqe, class Address, std::size_t... kIndex>
    [[gnu::always_inline]] static void compose_each(Wqe& wqe, Address& address,
                                                    std::index_sequence<kIndex...>) noexcept {
        (set<kFirst + kIndex>(wqe, address(kIndex)), ...);
    }
    template <std::size_t kUnit, class Wqe>
    [[gnu::always_inline]] static void set(Wqe& wqe, std::uint64_t address) noexcept {
        wqe.template set_word<kUnit * 2 + 1>(be64(address).raw());
    }
    template <std::size_t kUnit, class Wqe>
    [[gnu::always_inline]] static void set(Wqe& wqe, const Element& element) noexcept {
        wqe.template set_word<kUnit * 2>(element_word(element));
        set<kUnit>(wqe, element.address);
    }
    template <class Address, std::size_t... kIndex>
    [[gnu::always_inline]] static void patch_each(std::byte* units, Address& address,
                                                  std::index_sequence<kIndex...>) noexcept {
        (put(units + kIndex * kUnitBytes, address(kIndex)), ...);
    }
    static void put(std::byte* unit, std::uint64_t address) noexcept {
        const std::uint64_t word = be64(address).raw();
        std::memcpy(unit + sizeof word, &word, sizeof word);
    }
    static void put(std::byte* unit, const Element& element) noexcept {
        const std::uint64_t word = element_word(element);
        std::memcpy(unit, &word, sizeof word);
        put(unit, element.address);
    }
};

// The argument of posts of an operation whose payload does not change.
struct Unchanged {};
inline constexpr Unchanged kUnchanged;

// `kCount` elements that stay as they were prepared.
template <std::uint32_t kCount>
struct Elements {
    static constexpr std::uint32_t kUnits = kCount, kInlineBytes = 0, kElements = kCount;
    static constexpr std::uint32_t kConstantUnits = kCount;
    template <class Variable>
    static constexpr bool kReplaces = false;

    template <std::size_t kFirst, class Wqe>
    static void compose(Wqe&, Unchanged) noexcept {}
    static void patch(std::byte*, Unchanged) noexcept {}
};

// Operands of an atomic on 8 bytes, which a device does not find at an address that is no multiple
// of 8. The element that takes the old value stays.
struct Addend {  // fetch_add; a post takes the number
    static constexpr std::uint32_t kUnits = 2, kInlineBytes = 0, kElements = 1;
    static constexpr std::uint32_t kConstantUnits = 2;
    template <class Variable>
    static constexpr bool kReplaces = false;

    template <std::size_t kFirst, class Wqe>
    [[gnu::always_inline]] static void compose(Wqe& wqe, std::uint64_t addend) noexcept {
        wqe.template set_word<kFirst * 2>(be64(addend).raw());
    }
    static void patch(std::byte* units, std::uint64_t addend) noexcept {
        const std::uint64_t word = be64(addend).raw();
        std::memcpy(units, &word, sizeof word);
    }
};
struct Exchange {  // compare_swap; a post takes one
    struct Values {
        std::uint64_t compare = 0, swap = 0;
    };
    static constexpr std::uint32_t kUnits = 2, kInlineBytes = 0, kElements = 1;
    static constexpr std::uint32_t kConstantUnits = 2;
    template <class Variable>
    static constexpr bool kReplaces = false;

    template <std::size_t kFirst, class Wqe>
    [[gnu::always_inline]] static void compose(Wqe& wqe, const Values& values) noexcept {
        wqe.template set_word<kFirst * 2>(be64(values.swap).raw());
        wqe.template set_word<kFirst * 2 + 1>(be64(values.compare).raw());
    }
    static void patch(std::byte* units, const Values& values) noexcept {
        const std::uint64_t words[] = {be64(values.swap).raw(), be64(values.compare).raw()};
        std::memcpy(units, words, sizeof words);
    }
};

// The varying parts of one request of a list. Sends have no remote memory.
template <class Remote, class Variable>
struct Listed {
    Remote remote{};
    Variable payload;
};
template <class Variable>
Listed(RemoteMemory, Variable) -> Listed<RemoteMemory, Variable>;
template <class Address, class Variable>
Listed(Address, Variable) -> Listed<std::uint64_t, Variable>;

// -- Shapes --

template <Opcode kOpcode, class Payload>
struct FixedShape {
    static constexpr bool kTakesPayload =
        kOpcode == Opcode::fetch_add      ? std::is_same_v<Payload, Addend>
        : kOpcode == Opcode::compare_swap ? std::is_same_v<Payload, Exchange>
        : kOpcode == Opcode::read         ? Payload::kInlineBytes == 0
                                          : is_write(kOpcode) || is_send(kOpcode);
    static_assert(kTakesPayload,
                  "writes and sends take Inline, Gather or Elements, reads the last "
                  "two; fetch_add takes Addend, compare_swap Exchange");
    static constexpr bool kNamesRemoteMemory = names_remote_memory(kOpcode);
    static constexpr std::uint32_t kPayloadUnit = kNamesRemoteMemory ? 2 : 1;
    static constexpr std::uint32_t kUnits = kPayloadUnit + Payload::kUnits;
    static constexpr std::uint32_t kBlocks = blocks_for_units(kUnits);
    static_assert(kUnits <= kMaxWqeUnits);
    // Names registered memory of this side.
    static constexpr bool kNamesRegions = Payload::kElements != 0;

    static constexpr std::uint64_t key_word(std::uint32_t key) noexcept {
        return word(be32(key), be32(0));
    }
    // Puts the varying parts into an encoded WQE.
    template <class Remote, class Variable>
    [[gnu::always_inline]] static void patch(std::byte* wqe, const Remote& remote,
                                             Variable&& payload) noexcept {
        if constexpr (kNamesRemoteMemory) put_remote(wqe + kUnitBytes, remote);
        Payload::patch(wqe + kPayloadUnit * kUnitBytes, payload);
    }

  private:
    static void put_remote(std::byte* unit, std::uint64_t address) noexcept {
        const std::uint64_t word = be64(address).raw();
        std::memcpy(unit, &word, sizeof word);
    }
    static void put_remote(std::byte* unit, const RemoteMemory& memory) noexcept {
        const std::uint64_t words[] = {be64(memory.address).raw(), key_word(memory.key)};
        std::memcpy(unit, words, sizeof words);
    }
};

}  // namespace verbatim::mlx5
