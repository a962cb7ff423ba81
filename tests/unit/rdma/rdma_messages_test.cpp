// Real devices where there is none, or none that will do: what the user is told.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>

#include <verbatim/rdma/rdma.hpp>

#include "gid_choice.hpp"
#include "messages.hpp"

namespace verbatim::rdma {
namespace {

bool says(const Error& error, const char* text) {
    return std::string(error.what()).find(text) != std::string::npos;
}

TEST(RdmaMessages, no_kernel_support_names_the_software_nic) {
    const Error error = no_device_error({"", 1}, {}, ENOSYS);
    EXPECT_EQ(error.code(), Errc::no_device);
    EXPECT_TRUE(says(error, "kernel offers no RDMA devices")) << error.what();
    EXPECT_TRUE(says(error, "device.kind = \"softnic\"")) << error.what();
    EXPECT_TRUE(says(error, "modprobe mlx5_ib")) << error.what();
}

TEST(RdmaMessages, every_rejected_device_is_listed_with_its_reason) {
    const Error error = no_device_error(
        {"mlx5_7", 2}, {{"mlx4_0", "no mlx5 queues"}, {"mlx5_1", "port 2 is down"}}, 0);
    EXPECT_TRUE(says(error, "looked for mlx5_7 with port 2")) << error.what();
    EXPECT_TRUE(says(error, "mlx4_0 (no mlx5 queues), mlx5_1 (port 2 is down)")) << error.what();
    EXPECT_TRUE(says(no_device_error({"", 1}, {}, 0), "no RDMA device at all"));
    EXPECT_TRUE(says(no_device_error({"", 1}, {}, 0), "a device with mlx5 queues and port 1"));
    EXPECT_TRUE(says(no_device_error({"", 1, false}, {}, 0), "a device with port 1"));
}

TEST(RdmaMessages, refused_pinning_names_the_limit_and_the_remedy) {
    const Error error = registration_error(1 << 30, ENOMEM, {8u << 20, 1000});
    EXPECT_EQ(error.code(), Errc::out_of_memory);
    EXPECT_TRUE(says(error, "RLIMIT_MEMLOCK is 8388608 bytes for uid 1000")) << error.what();
    EXPECT_TRUE(says(error, "ulimit -l unlimited")) << error.what();
    EXPECT_TRUE(says(error, "limits.conf")) << error.what();
}

TEST(RdmaMessages, unlimited_memlock_is_not_blamed) {
    const Error error = registration_error(1 << 30, ENOMEM, {UINT64_MAX, 0});
    EXPECT_EQ(error.code(), Errc::out_of_memory);
    EXPECT_FALSE(says(error, "ulimit -l")) << error.what();
}

TEST(RdmaMessages, other_failures_keep_their_cause) {
    EXPECT_EQ(registration_error(1, EFAULT, {0, 0}).code(), Errc::invalid_argument);
    const Error forbidden = call_error("mlx5_0", "ibv_open_device", EACCES);
    EXPECT_EQ(forbidden.code(), Errc::permission_denied);
    EXPECT_TRUE(says(forbidden, "/dev/infiniband"));
    EXPECT_EQ(call_error("mlx5_0", "ibv_create_qp", EINVAL).code(), Errc::device_error);
}

TEST(GidChoice, first_roce_v2_entry_unless_told_otherwise) {
    const GidEntry table[] = {
        {0, GidKind::roce_v1, {1}}, {1, GidKind::roce_v2, {2}}, {3, GidKind::roce_v2, {3}}};
    EXPECT_EQ(choose_gid(table, -1)->index, 1u);
    EXPECT_EQ(choose_gid(table, 0)->index, 0u);
    EXPECT_EQ(choose_gid(table, 3)->bytes[0], 3);
    EXPECT_FALSE(choose_gid(table, 2).has_value());
    EXPECT_FALSE(choose_gid(std::span(table, 1), -1).has_value());
    const GidEntry infiniband[] = {{0, GidKind::infiniband, {9}}};
    EXPECT_EQ(choose_gid(infiniband, -1)->index, 0u);
}

TEST(GidChoice, text_is_grouped_like_an_address) {
    std::array<std::uint8_t, 16> gid{0xfe, 0x80};
    gid[15] = 1;
    EXPECT_EQ(gid_text(gid), "fe80:0000:0000:0000:0000:0000:0000:0001");
}

// On machines with a device the call works or names it; without one it says so.
TEST(RdmaDevice, open_never_fails_without_an_explanation) {
    try {
        const auto device = open_device();
        EXPECT_FALSE(device->info().name.empty());
    } catch (const Error& error) {
        EXPECT_FALSE(error.remedy().empty()) << error.what();
    }
    try {
        open_device({.name = "no_such_device"});
        FAIL() << "opened a device that does not exist";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::no_device);
        EXPECT_TRUE(says(error, "no_such_device")) << error.what();
    }
}

}  // namespace
}  // namespace verbatim::rdma
