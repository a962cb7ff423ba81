// Tagged messages with a posted receive, and byte streams, allocate nothing. Apart from their other
// tests, as the thread sanitizer has an operator new of its own.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <verbatim/core/stream.hpp>
#include <verbatim/core/tagged.hpp>

#include "../core_messages.hpp"
#include "counted_allocations.hpp"
#include "sanitized.hpp"

namespace verbatim::test {
namespace {

void poll(ConnectedPair& pair) { (void)pair.sender->progress(), (void)pair.receiver->progress(); }

TEST(Tagged, allocates_nothing_where_receives_are_posted) {
    if (kSanitized) GTEST_SKIP() << "sanitizers allocate; runs in every other build";
    ConnectedPair pair(small_config(), small_config());
    Tagged from(*pair.sender), to(*pair.receiver);
    std::array<std::byte, 300> message{}, into{};
    std::uint64_t received = 0;
    const auto exchange = [&](std::uint64_t rounds) {
        for (std::uint64_t i = 0; i < rounds; ++i) {
            TaggedReceive receive(i, into);
            to.receive(receive);
            while (from.try_send(i, std::span(message).first(i % 300)) != Errc::ok) poll(pair);
            while (receive.result() == Errc::would_block) poll(pair);
            received += receive.result() == Errc::ok;
        }
    };
    exchange(10'000);
    const std::uint64_t before = allocations_of_this_thread;
    exchange(10'000);
    EXPECT_EQ(allocations_of_this_thread, before);
    EXPECT_EQ(received, 20'000u);
}

TEST(Stream, allocates_nothing) {
    if (kSanitized) GTEST_SKIP() << "sanitizers allocate; runs in every other build";
    ConnectedPair pair(small_config(), small_config());
    Stream from(*pair.sender), to(*pair.receiver);
    std::vector<std::byte> bytes(20'000);
    std::size_t read = 0;
    const auto exchange = [&] {
        for (std::size_t i = 0, some = 0; i < 3000; ++i) {
            (void)from.try_write(std::span(bytes).first(1 + i * 7 % bytes.size()), some);
            poll(pair);
            (void)to.try_read(bytes, some);
            read += some;
        }
    };
    exchange();
    const std::uint64_t before = allocations_of_this_thread;
    exchange();
    EXPECT_EQ(allocations_of_this_thread, before);
    EXPECT_GT(read, 1'000'000u);
}

}  // namespace
}  // namespace verbatim::test
