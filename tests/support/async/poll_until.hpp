// A wait of tests of asynchronous operations, which polls drive.
#pragma once

#include <gtest/gtest.h>

#include <chrono>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

// Polls both lanes, and nothing else, until then.
template <class Done>
testing::AssertionResult poll_until(ConnectedPair& pair, Done done) {
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(20)); !done();) {
        (void)pair.sender_context.lane().poll();
        (void)pair.receiver_context.lane().poll();
        if (deadline.passed()) return testing::AssertionFailure() << "it does not happen";
    }
    return testing::AssertionSuccess();
}

}  // namespace verbatim::test
