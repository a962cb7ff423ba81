// std::bitset: the bits of its last word that it does not use must be zero.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <verbatim/objects/libstdcxx_values.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <std::size_t N>
struct Trait<std::bitset<N>> {
    using Parts = List<>;
    using Edges = List<>;
    static constexpr std::size_t kUsed = N % kBitsetWordBits;  // bits of the last word; 0: all
    static constexpr bool kPlain = kUsed == 0;
    static std::string spell() { return "bitset<" + std::to_string(N) + ">"; }
    static TypeInfo info() { return {}; }
    template <class R>
    static void mend(R& receiver, std::bitset<N>& bits) {
        std::uint64_t last = 0;
        std::memcpy(&last, reinterpret_cast<const std::byte*>(&bits + 1) - sizeof last,
                    sizeof last);
        if (last >> kUsed != 0) receiver.corrupt("a bitset has bits behind its end");
    }
};

}  // namespace verbatim::objects
