// Composed tables are the memory of walks over composed messages. A connection keeps those of each
// direction: touching fresh memory costs more than filling it. Threads: one walk at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_bits.hpp>
#include <verbatim/objects/composed/composed_map.hpp>

namespace verbatim::objects {

class ComposedChecking;
class ComposedVerifying;

// As PackFrame.
struct ComposedCheckFrame {
    void (*step)(ComposedChecking&, const ComposedCheckFrame&) = nullptr;
    const std::byte* source = nullptr;
    std::uint64_t offset = 0;  // of containers
    std::uint64_t count = 0;
};
// As MendFrame.
struct ComposedVerifyFrame {
    void (*step)(ComposedVerifying&, const ComposedVerifyFrame&) = nullptr;
    std::byte* at = nullptr;
    std::uint64_t count = 0;
    std::uint64_t state = 0;  // of containers
};

// What an earlier walk left in them does not matter.
struct ComposedTables {
    ComposedMap map;
    ComposedBits bits;
    Column<ComposedVerifyFrame> stack;
    Column<std::byte*> left;  // of the chain under way
};

}  // namespace verbatim::objects
