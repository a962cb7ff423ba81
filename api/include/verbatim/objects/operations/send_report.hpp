// A send report says what one graph took.
#pragma once

#include <cstdint>

#include <verbatim/objects/classes/polymorphic_class.hpp>

namespace verbatim {

// The result of one send().
struct SendReport {
    std::uint64_t objects = 0;       // separately reached objects, strings and arrays
    std::uint64_t references = 0;    // pointers, strings and vectors that lead to them
    std::uint64_t records = 0;       // references that the receiver had to be told of
    std::uint64_t object_bytes = 0;  // the image in the receiver's memory
    std::uint64_t wire_bytes = 0;    // image, records and protocol
    objects::ClassCounts classes{};  // of references to polymorphic objects
    bool composed = false;           // it left as it lay (docs/composed.md)
};

}  // namespace verbatim
