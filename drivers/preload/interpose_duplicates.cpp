// Takes the place of those calls of the C library that put a file in another one's place, or close
// many. What they close by the way ends as it does by close(). Threads: any.
#include <fcntl.h>
#include <unistd.h>

#include <climits>

#include "../uverbs/files/open_files.hpp"
#include "../uverbs/tree/next_function.hpp"

using namespace verbatim::uverbs;

namespace {

// `descriptor`: what dup() and the like returned. Its number stood for something else before.
int replaced(int from, int descriptor) noexcept {
    if (descriptor < 0 || descriptor == from) return descriptor;
    leave_number(descriptor);
    return descriptor;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int dup2(int from, int to) noexcept {
    static auto* const real = next<int(int, int)>("dup2");
    return replaced(from, real(from, to));
}

int dup3(int from, int to, int flags) noexcept {
    static auto* const real = next<int(int, int, int)>("dup3");
    return replaced(from, real(from, to, flags));
}

// Before they are closed: the library's own, which may be among them, are then closed in order.
int close_range(unsigned first, unsigned last, int flags) noexcept {
    static auto* const real = next<int(unsigned, unsigned, int)>("close_range");
    if ((unsigned(flags) & CLOSE_RANGE_CLOEXEC) == 0) leave_numbers(first, last);
    return real(first, last, flags);
}

void closefrom(int first) noexcept {
    static auto* const real = next<void(int)>("closefrom");
    leave_numbers(first < 0 ? 0 : static_cast<unsigned>(first), UINT_MAX);
    real(first);
}

#pragma GCC visibility pop
}  // extern "C"
