// Arming: record and register get from us what libmlx5 writes there.
#include <gtest/gtest.h>

#include <array>

#include <verbatim/mlx5/completion_queue.hpp>

#include "libmlx5.hpp"

namespace verbatim::interop {
namespace {

struct Armed {
    std::uint32_t record = 0;
    std::array<std::uint32_t, 2> words{};
    bool operator==(const Armed&) const = default;
};

class Arming : public testing::Test {
  protected:
    Armed armed() const {
        const auto* const page = static_cast<const volatile std::byte*>(facts().cq_uar);
        const auto* const words =
            reinterpret_cast<const volatile std::uint32_t*>(page + mlx5::kArmRegisterOffset);
        return {be32toh(facts().dbrec[1]), {be32toh(words[0]), be32toh(words[1])}};
    }
    const mlx5dv_cq& facts() const { return lib.completion_facts; }
    mlx5::CompletionQueueView view() const {
        mlx5::CompletionQueueView view;
        view.buffer = static_cast<std::byte*>(facts().buf);
        view.entries = facts().cqe_cnt;
        view.entry_bytes = facts().cqe_size;
        view.doorbell_record = reinterpret_cast<volatile std::uint32_t*>(facts().dbrec);
        view.doorbell_register = static_cast<volatile std::byte*>(facts().cq_uar);
        view.number = facts().cqn;
        return view;
    }

    LibQueues lib;
};

TEST_F(Arming, writes_what_libmlx5_writes) {
    mlx5::CompletionQueue ours(view());
    for (const bool solicited : {false, true}) {
        ASSERT_EQ(ibv_req_notify_cq(lib.completions.get(), solicited ? 1 : 0), 0);
        const Armed by_libmlx5 = armed();
        EXPECT_EQ(by_libmlx5.words[1], facts().cqn);
        ASSERT_EQ(ours.arm(solicited ? mlx5::Notify::any : mlx5::Notify::solicited), Errc::ok);
        EXPECT_NE(armed(), by_libmlx5);
        ASSERT_EQ(ours.arm(solicited ? mlx5::Notify::solicited : mlx5::Notify::any), Errc::ok);
        EXPECT_EQ(armed(), by_libmlx5);
    }
}

}  // namespace
}  // namespace verbatim::interop
