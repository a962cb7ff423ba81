// Two processes of a test, each with an end of one connection.
#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "softnic_end.hpp"
#include "softnic_process.hpp"

namespace verbatim::softnic::test {

// Exchanges addresses and connects; false where the other process went.
inline bool meet(End& end, Wire& wire) {
    EndAddress peer;
    if (!wire.put(end.address()) || !wire.get(peer)) return false;
    end.connect(peer);
    return wire.signal() && wire.wait();
}

// A word that the other process writes.
inline std::uint64_t watch(const End& end, std::size_t offset) {
    return __atomic_load_n(reinterpret_cast<std::uint64_t*>(end.at(offset)), __ATOMIC_ACQUIRE);
}

// Unprivileged, and not to be attached to.
inline void forbid_attach() {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) std::abort();
    prctl(PR_SET_DUMPABLE, 0);
}

// Each gets the other's address, then both are released.
inline void introduce(Child& one, Child& other) {
    EndAddress of_one, of_other;
    ASSERT_TRUE(one.wire().get(of_one));
    ASSERT_TRUE(other.wire().get(of_other));
    one.wire().put(of_other);
    other.wire().put(of_one);
    ASSERT_TRUE(one.wire().wait());
    ASSERT_TRUE(other.wire().wait());
    one.wire().signal();
    other.wire().signal();
}

}  // namespace verbatim::softnic::test
