// A descriptor handed out to the program: which file its number stood for then, and whose it is.
// The number alone says neither: the program may put another file in its place or close it past
// this library, and a child has it too, one of vfork() with the parent's memory. Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace verbatim::uverbs {

class HandedOut {
  public:
    explicit HandedOut(int descriptor) noexcept;

    // Whether a number stands for that file in the calling process.
    bool is(int descriptor) const noexcept;
    // False in every child of the process that opened it.
    bool mine() const noexcept;

  private:
    std::uint64_t device_ = 0, inode_ = 0;
    pid_t owner_;
};

}  // namespace verbatim::uverbs
