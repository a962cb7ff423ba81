// A wake file is an eventfd that one process writes to end the sleep of a thread of another one.
// Its maker can make a writer wait for ever. So it is written only for a process that could stop
// the writer by a signal.
// An eventfd wakes in two thirds of the time that a socket takes. Threads: any.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <utility>

#include "descriptor.hpp"

namespace verbatim::softnic {

class WakeFile {
  public:
    explicit WakeFile(Descriptor file) noexcept : file_(std::move(file)) {}
    int file() const noexcept { return file_.get(); }

    // False: it cannot be written, or is full, and wakes nobody. One system call.
    bool wake() const noexcept {
        const std::uint64_t one = 1;
        return write(file_.get(), &one, sizeof one) == sizeof one;
    }

  private:
    Descriptor file_;
};

}  // namespace verbatim::softnic
