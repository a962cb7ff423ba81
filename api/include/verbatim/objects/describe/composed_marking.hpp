// The marking of types whose graphs may be composed (docs/composed.md).
#pragma once

namespace verbatim {

// Graphs with such a root may be composed. Specialized by VERBATIM_COMPOSED.
template <class T>
inline constexpr bool kComposed = false;

}  // namespace verbatim

// At global scope, beside the definition of a type, for both processes: compose() makes graphs with
// that root, and receive() takes them.
#define VERBATIM_COMPOSED(...) \
    template <>                \
    inline constexpr bool verbatim::kComposed<__VA_ARGS__> = true
