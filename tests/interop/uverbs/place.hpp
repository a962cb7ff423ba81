// What two processes of a test tell each other through pipes.
#pragma once

#include <poll.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>

#include "verbs_pair.hpp"

namespace verbatim::interop {

// The writer may have ended, and this process have the pipe's other end, too: it does not wait for
// ever.
template <class T>
T take(int from) {
    constexpr int kPatienceMs = 30000;
    T value{};
    pollfd waiting{from, POLLIN, 0};
    if (poll(&waiting, 1, kPatienceMs) != 1) throw std::runtime_error("no answer in time");
    if (read(from, &value, sizeof value) != sizeof value) throw std::runtime_error("no answer");
    return value;
}
template <class T>
void tell(int to, const T& value) {
    if (write(to, &value, sizeof value) != sizeof value) throw std::runtime_error("nobody reads");
}

struct Place {
    std::uint32_t number, key;
    std::uint64_t address;
};
inline Place place_of(const Side& side) {
    return {side.pair->qp_num, side.region->rkey,
            reinterpret_cast<std::uint64_t>(side.memory.data())};
}

}  // namespace verbatim::interop
