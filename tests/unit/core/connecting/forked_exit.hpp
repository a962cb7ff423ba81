// Children that end by exit().
#pragma once

#include <cstdlib>
#include <functional>

#include "softnic_process.hpp"

namespace verbatim::test {

// In a child: what it leaves of its parent's objects is no leak.
inline bool g_is_child = false;

// As status_in_child(): but objects with static storage end in the child, too.
inline int status_of_exit(const std::function<int()>& act) {
    return softnic::test::status_in_child([&] {
        g_is_child = true;
        std::exit(act());
        return 98;
    });
}

}  // namespace verbatim::test

// Asked by leak checkers.
extern "C" [[gnu::used]] inline int __lsan_is_turned_off() {
    return verbatim::test::g_is_child ? 1 : 0;
}
