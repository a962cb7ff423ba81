// The function of the C library whose place one of ours has taken. Threads: any.
#pragma once

#include <dlfcn.h>

namespace verbatim::uverbs {

template <class Function>
Function* next(const char* name) noexcept {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace verbatim::uverbs
