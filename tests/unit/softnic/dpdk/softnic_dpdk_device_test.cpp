// The dpdk port on devices of DPDK whose environment this program has set up: eal = "host".
#include <gtest/gtest.h>

#include <array>
#include <string>

#include <rte_eal.h>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

// Once a process.
bool set_up_environment() {
    static const bool good = [] {
        std::array<std::string, 9> words{"test",
                                         "--no-huge",
                                         "-m",
                                         "128",
                                         "--no-pci",
                                         "--no-telemetry",
                                         "--log-level=*:error",
                                         "--vdev=net_ring7",
                                         "--no-shconf"};
        std::array<char*, words.size()> arguments;
        for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
        return rte_eal_init(static_cast<int>(arguments.size()), arguments.data()) >= 0;
    }();
    return good;
}

EndOptions on_host(const std::string& device) {
    EndOptions options;
    options.device.port = PortKind::dpdk;
    options.device.packets.dpdk = {.device = device, .host_eal = true};
    return options;
}

std::string refusal_of(const EndOptions& options) {
    try {
        const End end(options);
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing";
}

// First: nobody has set it up.
TEST(DpdkHost, that_has_set_up_nothing_is_told_so) {
    EXPECT_NE(refusal_of(on_host("net_ring7")).find("rte_eal_init"), std::string::npos);
}

TEST(DpdkHost, lends_its_device_by_number_and_then_not_by_name) {
    if (!set_up_environment()) GTEST_SKIP() << "the EAL cannot be set up here";
    {
        Pair pair(on_host("0"));
        EXPECT_STREQ(pair.a.queue_pair->transport(), "dpdk");
        ASSERT_EQ(pair.a.post_write(pattern(64), 64, 1), Errc::ok);
        ASSERT_TRUE(pair.poll_for(1, 0));
        EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
        EXPECT_EQ(std::vector<std::byte>(pair.b.at(64), pair.b.at(64) + 64), pattern(64));
    }
    EXPECT_NE(refusal_of(on_host("net_ring7")).find("in one way"), std::string::npos);
    const Pair again(on_host("0"));
}

TEST(DpdkHost, is_told_which_device_it_does_not_have) {
    if (!set_up_environment()) GTEST_SKIP() << "the EAL cannot be set up here";
    EXPECT_NE(refusal_of(on_host("net_ring8")).find("net_ring8"), std::string::npos);
    EXPECT_NE(refusal_of(on_host("17")).find("17"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::softnic::test
