// What a receiver makes of a copy of a composed message's bytes, without a connection.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include <verbatim/objects/composed/composed_verifier.hpp>
#include <verbatim/objects/composed/composition.hpp>

#include "objects_image.hpp"

namespace verbatim::test {

// As by send().
template <class T>
std::optional<objects::ComposedBytes> finished(const objects::Composition<T>& message) {
    objects::ComposedTables tables;
    return message.finish(tables);
}

template <class T>
struct Arrived {
    Image copy;
    objects::ComposedTables tables;
    std::uint64_t objects = 0;
    T* root = nullptr;

    explicit Arrived(const objects::ComposedMemory& memory) : copy(Image::empty(memory.used)) {
        std::memcpy(copy.bytes.get(), memory.bytes, memory.used);
        objects::ComposedVerifier<T> verifier(tables);
        root = verifier.run({copy.bytes.get(), memory.used, 0});
        objects = verifier.objects();
    }
    bool holds(const void* object) const {
        const auto* at = static_cast<const std::byte*>(object);
        return at >= copy.bytes.get() && at < copy.bytes.get() + copy.size;
    }
};

}  // namespace verbatim::test
