// The function of the C library whose place one of ours has taken. Threads: any.
#pragma once

#include <dlfcn.h>

namespace verbatim::uverbs {

template <class Function>
Function* next(const char* name) noexcept {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The library may be loaded where names are not looked up by default.
template <class Function>
Function* next_in_library(const char* library, const char* name) noexcept {
    void* found = dlsym(RTLD_NEXT, name);
    if (found == nullptr) {
        void* const handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
        if (handle != nullptr) found = dlsym(handle, name);
    }
    return reinterpret_cast<Function*>(found);
}

}  // namespace verbatim::uverbs
