// A requester knows a few of its peer's keys. Requests under more of them, in any order, go where
// their key says, and an ended key is refused whether it is known or not.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <random>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

constexpr std::size_t kKeys = 4, kEach = 4096;
constexpr Access kRights = Access::local_write | Access::remote_write | Access::remote_read;

class RecentKeys : public testing::Test {
  protected:
    RecentKeys() {
        for (std::size_t i = 0; i < kKeys; ++i)
            regions[i] = pair.b.device->register_memory(pair.b.at(i * kEach), kEach, kRights,
                                                        {pair.b.memory.file(), i * kEach});
    }
    // A write of 8 bytes under the key of this region; its status.
    Errc write(std::size_t region, std::uint64_t value, std::size_t place = 0) {
        mlx5::WorkRequest request = pair.a.request(mlx5::Opcode::write, region * kEach + place);
        request.remote_key = keys[region];
        request.inline_payload = std::as_bytes(std::span(&value, 1));
        if (const Errc error = pair.a.send->post(request); error != Errc::ok) return error;
        const auto found = pair.a.poll();
        return found.size() == 1 ? found[0].status : Errc::timeout;
    }
    void learn_keys() {
        for (std::size_t i = 0; i < kKeys; ++i) keys[i] = regions[i]->remote_key();
    }

    Pair pair{EndOptions{}};
    std::array<std::unique_ptr<MemoryRegion>, kKeys> regions;
    std::array<std::uint32_t, kKeys> keys{};
};

TEST_F(RecentKeys, each_request_goes_where_its_key_says) {
    learn_keys();
    std::minstd_rand random{1};
    for (std::uint64_t i = 1; i <= 1000; ++i) {
        const std::size_t region = random() % kKeys, place = random() % (kEach / 8) * 8;
        ASSERT_EQ(write(region, i, place), Errc::ok);
        ASSERT_EQ(pair.b.value<std::uint64_t>(region * kEach + place), i);
    }
}

TEST_F(RecentKeys, neighbours_of_a_known_key_are_not_reached_by_it) {
    learn_keys();
    ASSERT_EQ(write(0, 1), Errc::ok);
    ASSERT_EQ(write(1, 2), Errc::ok);
    EXPECT_NE(write(0, 3, kEach), Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(kEach), 2u);
}

TEST_F(RecentKeys, one_that_has_ended_is_refused_though_another_was_used_since) {
    learn_keys();
    ASSERT_EQ(write(0, 1), Errc::ok);
    ASSERT_EQ(write(1, 2), Errc::ok);
    regions[0].reset();
    ASSERT_EQ(write(1, 3), Errc::ok);
    EXPECT_NE(write(0, 4), Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 1u);
}

TEST_F(RecentKeys, one_that_has_ended_leaves_the_other_in_order) {
    learn_keys();
    ASSERT_EQ(write(0, 1), Errc::ok);
    ASSERT_EQ(write(1, 2), Errc::ok);
    regions[1].reset();
    ASSERT_EQ(write(0, 3), Errc::ok);
    EXPECT_EQ(pair.b.value<std::uint64_t>(0), 3u);
}

}  // namespace
}  // namespace verbatim::softnic::test
