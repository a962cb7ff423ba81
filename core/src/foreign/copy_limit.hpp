// The copy limit is the size below which copying bytes into registered memory takes less time than
// registering them where they lie. Source: Chang, "Safe and Efficient Cluster Communication in
// Java", §2.3: copying won below some 6 KB. Threads: any. Control path: milliseconds.
#pragma once

#include <cstddef>
#include <functional>

namespace verbatim {

inline constexpr std::size_t kLeastCopyLimit = 64, kMostCopyLimit = std::size_t{4} << 20;

// The least power of two for which `use(memory, bytes)`, which registers and releases, takes no
// longer than a copy; kMostCopyLimit if there is none. Medians of a few tries of the kind that will
// be repeated: each memory was used once before. Throws std::bad_alloc, and what `use` throws.
std::size_t measure_copy_limit(const std::function<void(void*, std::size_t)>& use);

}  // namespace verbatim
