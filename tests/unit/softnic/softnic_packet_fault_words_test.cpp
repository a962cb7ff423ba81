// The words of packet faults, and what they say of mistakes.
#include <verbatim/softnic/packet_faults.hpp>

#include <gtest/gtest.h>

#include <string>

#include <verbatim/driver/error.hpp>

namespace verbatim::softnic {
namespace {

std::string complaint(std::string_view text) {
    try {
        (void)parse_packet_faults(text, "there");
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error);
        return error.what();
    }
    return "accepted";
}

TEST(PacketFaultWords, are_rates_in_any_order_and_a_seed) {
    const PacketFaults none = parse_packet_faults("", "there");
    EXPECT_FALSE(none.any());
    EXPECT_EQ(none.seed, 1u);
    const PacketFaults all =
        parse_packet_faults(" swap=0.25  lose=0.01 seed=9 duplicate=0.5 corrupt=0.000001", "there");
    EXPECT_EQ(all.lose, 10'000u);
    EXPECT_EQ(all.duplicate, 500'000u);
    EXPECT_EQ(all.swap, 250'000u);
    EXPECT_EQ(all.corrupt, 1u);
    EXPECT_EQ(all.seed, 9u);
    EXPECT_TRUE(all.any());
    EXPECT_FALSE(parse_packet_faults("lose=0 seed=3", "there").any());
}

TEST(PacketFaultWords, that_are_wrong_are_refused_with_their_place_and_a_remedy) {
    for (const auto& [text, said] : {std::pair("los=0.1", "lose"),
                                     {"lose", "key=value"},
                                     {"=0.1", "unknown"},
                                     {"lose=", "from 0 to 0.5"},
                                     {"lose=0.6", "from 0 to 0.5"},
                                     {"lose=-0.1", "from 0 to 0.5"},
                                     {"lose=nan", "from 0 to 0.5"},
                                     {"lose=0.1x", "from 0 to 0.5"},
                                     {"seed=-1", "a number from 0"},
                                     {"seed=0.5", "a number from 0"}}) {
        const std::string complained = complaint(text);
        EXPECT_NE(complained.find("there"), std::string::npos) << complained;
        EXPECT_NE(complained.find(said), std::string::npos) << complained;
    }
}

}  // namespace
}  // namespace verbatim::softnic
