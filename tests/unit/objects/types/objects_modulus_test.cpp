// Remainders without divisions.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>

#include <verbatim/objects/modulus.hpp>

namespace verbatim::objects {
namespace {

TEST(Modulus, remainders_are_those_of_divisions) {
    constexpr std::uint64_t kAll = ~std::uint64_t{0}, kTop = std::uint64_t{1} << 63;
    std::mt19937_64 random(7);
    for (int round = 0; round < 20'000; ++round) {
        const std::uint64_t by = (random() >> (1 + random() % 63)) + 1;
        const Modulus modulus(by);
        const std::uint64_t number = random() >> random() % 64, many = number / by * by;
        for (const std::uint64_t of : {number, many, many - 1, many + by - 1, kAll - number, kAll,
                                       kTop, kTop - 1, by, by - 1, std::uint64_t{0}})
            ASSERT_EQ(modulus.of(of), of % by) << of << " by " << by;
    }
    for (const std::uint64_t by : std::array{std::uint64_t{1}, std::uint64_t{2}, kTop - 1, kTop})
        for (const std::uint64_t of : {std::uint64_t{0}, std::uint64_t{1}, kTop, kAll})
            EXPECT_EQ(Modulus(by).of(of), of % by);
}

}  // namespace
}  // namespace verbatim::objects
