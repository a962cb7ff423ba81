// Requests whose shape is known at compile time: how many units they have, which of them change
// from post to post, and how to make those, in registers or in place. What every post of a shape
// may change: the remote address, and the payload (inline bytes) or the addresses of its elements.
// Everything else was encoded when the operation was prepared. No state; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include <verbatim/mlx5/encode.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/queue_view.hpp>

namespace verbatim::mlx5 {

// A payload of `kBytes` bytes inside the WQE: 8, or any 16 and more. A post takes the 8 bytes as a
// number (as they lie in memory), otherwise the address of the bytes, which it reads before it
// returns.
template <std::uint32_t kBytes>
struct Inline {
    static_assert(kBytes == 8 || kBytes >= 16, "the copy moves 16 bytes at a time");
    static constexpr std::uint32_t kUnits = inline_units(kBytes), kInlineBytes = kBytes;
    static constexpr std::uint32_t kConstantUnits = 1;  // have bytes that patch() does not write
    static constexpr std::uint32_t kElements = 0;

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

// `kCount` elements in registered memory; their lengths and keys stay. A post takes a function from
// an element's number to its address.
template <std::uint32_t kCount>
struct Gather {
    static_assert(kCount >= 1);
    static constexpr std::uint32_t kUnits = kCount, kInlineBytes = 0, kElements = kCount;
    static constexpr std::uint32_t kConstantUnits = kCount;

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
        (wqe.template set_word<(kFirst + kIndex) * 2 + 1>(be64(address(kIndex)).raw()), ...);
    }
    template <class Address, std::size_t... kIndex>
    [[gnu::always_inline]] static void patch_each(std::byte* units, Address& address,
                                                  std::index_sequence<kIndex...>) noexcept {
        (put(units + kIndex * kUnitBytes + sizeof(std::uint64_t), address(kIndex)), ...);
    }
    static void put(std::byte* to, std::uint64_t address) noexcept {
        const std::uint64_t word = be64(address).raw();
        std::memcpy(to, &word, sizeof word);
    }
};

// What posts of an operation without a payload that changes take instead of one.
struct Unchanged {};
inline constexpr Unchanged kUnchanged;

// `kCount` elements that stay as they were prepared.
template <std::uint32_t kCount>
struct Elements {
    static constexpr std::uint32_t kUnits = kCount, kInlineBytes = 0, kElements = kCount;
    static constexpr std::uint32_t kConstantUnits = kCount;

    template <std::size_t kFirst, class Wqe>
    static void compose(Wqe&, Unchanged) noexcept {}
    static void patch(std::byte*, Unchanged) noexcept {}
};

// One request of a list: what varies in it. Sends have no remote address.
template <class Variable>
struct Listed {
    std::uint64_t remote_address = 0;
    Variable payload;
};
template <class Variable>
Listed(std::uint64_t, Variable) -> Listed<Variable>;

struct ShapeFacts {
    Opcode opcode;
    std::uint32_t inline_bytes;
    std::uint32_t elements;
    Transport transport = Transport::reliable_connection;
};
// Throws Error(invalid_argument) where the request has other ones.
void require_shape(const WorkRequest& request, const ShapeFacts& facts, std::uint32_t queue_pair);

template <Opcode kOpcode, class Payload>
struct FixedShape {
    static_assert(is_write(kOpcode) || is_send(kOpcode) || kOpcode == Opcode::read);
    static_assert(takes_inline_payload(kOpcode) || Payload::kInlineBytes == 0);
    static constexpr bool kNamesRemoteMemory = names_remote_memory(kOpcode);
    static constexpr std::uint32_t kPayloadUnit = kNamesRemoteMemory ? 2 : 1;
    static constexpr std::uint32_t kUnits = kPayloadUnit + Payload::kUnits;
    static constexpr std::uint32_t kBlocks = blocks_for_units(kUnits);
    static_assert(kUnits <= kMaxWqeUnits);

    // Puts what varies into an encoded WQE. Sends have no remote address.
    template <class Variable>
    [[gnu::always_inline]] static void patch(std::byte* wqe, std::uint64_t remote_address,
                                             Variable&& payload) noexcept {
        if constexpr (kNamesRemoteMemory) {
            const std::uint64_t address = be64(remote_address).raw();
            std::memcpy(wqe + kUnitBytes, &address, sizeof address);
        }
        Payload::patch(wqe + kPayloadUnit * kUnitBytes, payload);
    }

    // Throws Error(invalid_argument) where the request has another shape, or gets one on this
    // queue.
    static void require(const WorkRequest& request, const QueuePairView& view) {
        require(request, view.transport, view.number);
    }
    static void require(const WorkRequest& request, Transport transport, std::uint32_t queue_pair) {
        require_shape(request, {kOpcode, Payload::kInlineBytes, Payload::kElements, transport},
                      queue_pair);
    }
};

}  // namespace verbatim::mlx5
