// Descriptors of the software NIC, which runs in programs of others. Threads: any.
#pragma once

#include <verbatim/driver/descriptor.hpp>

namespace verbatim::softnic {

using verbatim::Descriptor;
using verbatim::fork_generation;

// The same file by a number that programs which use select() can do without; where the limit of
// open files leaves none, or there is no file, the number given.
int out_of_the_way(int fd) noexcept;

}  // namespace verbatim::softnic
