// A test that shows a fault which a later issue will mend; meson knows it as `should_fail`, so that
// the suite says when it is gone. The program runs the test in a child and ends with 1 while the
// fault is there, with 0 once it is gone, with 77 where it cannot tell, and with 99, which is an
// error whatever meson expects, where anything else happens: a crash, an exception, no end.
#pragma once

#include <cstdio>

#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim::test {

enum class Fault : int { gone = 0, present = 1, not_run = 77, other = 99 };

inline Fault present(const char* what) {
    std::printf("known fault: %s\n", what);
    std::fflush(stdout);
    return Fault::present;
}
inline Fault other(const char* what) {
    std::printf("not the known fault: %s\n", what);
    std::fflush(stdout);
    return Fault::other;
}

// The exit status of the program whose only test is `body`.
template <class Body>
int known_fault(Body body) {
    softnic::test::Child child([&](softnic::test::Wire&) { return static_cast<int>(body()); });
    int code = -1;
    if (!child.reap_in_time(code)) return static_cast<int>(other("it did not end in 20 s"));
    if (code == 0 || code == 1 || code == 77) return code;
    std::printf("the child ended with %d\n", code);
    return static_cast<int>(Fault::other);
}

}  // namespace verbatim::test
