// Counts what operator new is asked for, by thread: threads of the library's own, such as the one
// that answers links, are no data path and allocate when they like. Include it in exactly one file
// of a program: it replaces the global operators.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

namespace verbatim::test {
inline thread_local std::uint64_t allocations_of_this_thread = 0;
}  // namespace verbatim::test

// Not inlined: compilers that see malloc and delete together suspect a mistake.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    ++verbatim::test::allocations_of_this_thread;
    if (void* memory = std::malloc(bytes)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
