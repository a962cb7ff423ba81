// What may be polled in memory that both processes have mapped: the last aligned eight bytes of a
// write come after all others of it, and in one store; and requests come one after the other.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <thread>

#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr std::uint64_t kRounds = 600;
constexpr std::size_t kSource = 500000, kFlag = 300000, kAcknowledgement = 400000;

// False: it became something else than `value`, or stayed as it was for too long.
bool turns_into(const End& end, std::size_t offset, std::uint64_t value) {
    const std::uint64_t before = watch(end, offset);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    constexpr int kLooks = 1000;  // then the other process may need this core
    int looks = 0;
    for (std::uint64_t now = before; now != value; now = watch(end, offset)) {
        if (now != before || std::chrono::steady_clock::now() > deadline) return false;
        if (++looks % kLooks == 0) std::this_thread::yield();
    }
    return true;
}

// A value whose eight bytes differ from those of the round before.
std::uint64_t mark(std::uint64_t round) { return (round % 255 + 1) * 0x0101010101010101u; }

// From one word to a few pages; where they begin does not matter, where they end does.
std::size_t begin_of(std::uint64_t round) { return round % 2 == 0 ? 0 : round % 31; }
std::size_t length_of(std::uint64_t round) { return 8 * (1 + round * 37 % 1500); }

bool write_and_wait(End& end, std::uint64_t round, std::size_t bytes, std::size_t to, bool flag) {
    std::fill_n(end.at(kSource), bytes, static_cast<std::byte>(mark(round) & 0xff));
    mlx5::WorkRequest write = end.request(mlx5::Opcode::write, to);
    const mlx5::Element whole = end.element(kSource, bytes);
    write.elements = std::span(&whole, 1);
    if (end.send->post(write) != Errc::ok) return false;
    const std::uint64_t value = mark(round);
    if (flag && end.post_write(std::as_bytes(std::span(&value, 1)), kFlag) != Errc::ok)
        return false;
    std::vector<mlx5::Completion> seen;
    if (!poll_until({&end}, {&seen}, [&] { return seen.size() >= (flag ? 2u : 1u); })) return false;
    return turns_into(end, kAcknowledgement, round);
}

bool acknowledge(End& end, std::uint64_t round) {
    std::vector<mlx5::Completion> seen;
    return end.post_write(std::as_bytes(std::span(&round, 1)), kAcknowledgement) == Errc::ok &&
           poll_until({&end}, {&seen}, [&] { return !seen.empty(); });
}

// From the end on: a copy begins at the beginning.
bool all_are(const End& end, std::size_t from, std::size_t bytes, std::uint64_t round) {
    const auto wanted = static_cast<std::byte>(mark(round) & 0xff);
    return std::all_of(std::reverse_iterator(end.at(from + bytes)),
                       std::reverse_iterator(end.at(from)),
                       [&](std::byte one) { return one == wanted; });
}

TEST(Litmus, the_last_word_of_a_write_comes_last_and_at_once) {
    Child child([](Wire& wire) {
        End end;
        if (!meet(end, wire)) return 1;
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            const std::size_t begin = begin_of(round), end_of = begin / 8 * 8 + length_of(round);
            if (!turns_into(end, end_of, mark(round))) return 2;
            if (!all_are(end, begin, end_of + 8 - begin, round)) return 3;
            // The next round may end elsewhere.
            std::fill_n(end.at(0), 20000, std::byte{0});
            if (!acknowledge(end, round)) return 4;
        }
        return 0;
    });
    End end;
    ASSERT_TRUE(meet(end, child.wire()));
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
        const std::size_t begin = begin_of(round), end_of = begin / 8 * 8 + length_of(round);
        ASSERT_TRUE(write_and_wait(end, round, end_of + 8 - begin, begin, false)) << round;
    }
    EXPECT_EQ(child.reap(), 0);
}

TEST(Litmus, data_are_there_before_the_flag_of_the_next_request) {
    Child child([](Wire& wire) {
        End end;
        if (!meet(end, wire)) return 1;
        for (std::uint64_t round = 1; round <= kRounds; ++round) {
            if (!turns_into(end, kFlag, mark(round))) return 2;
            if (!all_are(end, begin_of(round), length_of(round), round)) return 3;
            if (!acknowledge(end, round)) return 4;
        }
        return 0;
    });
    End end;
    ASSERT_TRUE(meet(end, child.wire()));
    for (std::uint64_t round = 1; round <= kRounds; ++round)
        ASSERT_TRUE(write_and_wait(end, round, length_of(round), begin_of(round), true)) << round;
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim::softnic::test
