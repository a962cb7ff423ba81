// The record of numbered messages: which were handed out, and which were reported as lost or
// unknown. Each must be one or the other, and none may be handed out twice.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include <verbatim/core/reconnecting.hpp>

#include "pair/connected_pair.hpp"

namespace verbatim::test {

inline std::uint64_t number_in(const Message& message) {
    std::uint64_t number = ~std::uint64_t{0};
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}

inline std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}

struct NumberedMessages {
    std::map<std::uint64_t, unsigned> taken;  // how often
    std::vector<Lost> lost;

    void expect_each_once_or_reported(std::uint64_t sent) const {
        std::vector<bool> reported(sent);
        std::uint64_t before = 0;
        for (const Lost& one : lost) {
            EXPECT_GE(one.first, before) << "reports overlap";
            before = one.first + one.count;
            ASSERT_LE(before, sent);
            for (std::uint64_t n = one.first; n != before; ++n) reported[n] = true;
        }
        for (std::uint64_t n = 0; n != sent; ++n) {
            const auto found = taken.find(n);
            const unsigned times = found == taken.end() ? 0 : found->second;
            EXPECT_LE(times, 1U) << "message " << n << " was handed out more than once";
            EXPECT_TRUE(times == 1 || reported[n]) << "message " << n << " was lost silently";
        }
        EXPECT_TRUE(taken.empty() || taken.rbegin()->first < sent);
    }
};

}  // namespace verbatim::test
