// Real devices where there is none, or none that will do: what the user is told.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>

#include <verbatim/rdma/rdma.hpp>

#include <verbatim/rdma/gid_choice.hpp>
#include "address_vector.hpp"
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

using Gid = std::array<std::uint8_t, 16>;
constexpr Gid kLinkLocal{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1}, kSite{0xfd, 1}, kGlobal{0x20, 1};
constexpr Gid kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};

TEST(GidChoice, entry_of_the_address_else_the_one_that_reaches_furthest) {
    const GidEntry table[] = {{0, GidKind::roce_v1, kMapped}, {1, GidKind::roce_v2, kLinkLocal},
                              {2, GidKind::roce_v2, kSite},   {3, GidKind::roce_v2, kGlobal},
                              {4, GidKind::roce_v2, kMapped}, {5, GidKind::roce_v2, kGlobal}};
    const auto index = [&](std::size_t entries, const GidWish& wish) {
        return choose_gid(std::span(table).first(entries), wish)->index;
    };
    EXPECT_EQ(index(2, {}), 1u) << "better than none";
    EXPECT_EQ(index(3, {}), 2u);
    EXPECT_EQ(index(4, {}), 3u);
    EXPECT_EQ(index(6, {}), 4u);
    EXPECT_EQ(index(6, {.address = kLinkLocal}), 1u);
    EXPECT_EQ(index(6, {.address = kMapped}), 4u) << "the same address is a RoCE v1 entry too";
    EXPECT_EQ(index(6, {.address = {0x20, 2}}), 4u) << "not of this port";
    EXPECT_EQ(index(6, {.index = 2, .address = kMapped}), 2u) << "what is asked for by number";
}

std::unique_ptr<Port> port_on(int link_layer, std::uint8_t flags = 0) {
    auto port = std::make_unique<Port>();
    port->number = 2;
    port->port_attributes.link_layer = static_cast<std::uint8_t>(link_layer);
    port->port_attributes.flags = flags;
    port->options.service_level = 3, port->options.traffic_class = 104;
    return port;
}

TEST(AddressVector, over_ethernet_always_has_a_route_with_its_class) {
    const GidEntry own{5, GidKind::roce_v2, kMapped};
    QueuePairAddress peer;
    peer.gid = kGlobal;
    const ibv_ah_attr way = address_vector(*port_on(IBV_LINK_LAYER_ETHERNET), own, peer);
    EXPECT_EQ(way.is_global, 1);
    EXPECT_EQ(way.sl, 3);
    EXPECT_EQ(way.port_num, 2);
    EXPECT_EQ(way.grh.sgid_index, 5);
    EXPECT_EQ(way.grh.traffic_class, 104);
    EXPECT_GT(way.grh.hop_limit, 1);
    EXPECT_TRUE(std::equal(kGlobal.begin(), kGlobal.end(), way.grh.dgid.raw));
}

TEST(AddressVector, on_infiniband_has_a_route_where_the_port_or_another_subnet_asks_for_it) {
    const GidEntry own{0, GidKind::infiniband, kLinkLocal};
    QueuePairAddress near, far;
    near.gid = kLinkLocal, near.gid[15] = 9, near.lid = 7;
    far.gid = kGlobal;
    const auto plain = port_on(IBV_LINK_LAYER_INFINIBAND);
    const ibv_ah_attr way = address_vector(*plain, own, near);
    EXPECT_EQ(way.is_global, 0);
    EXPECT_EQ(way.dlid, 7);
    EXPECT_EQ(way.sl, 3);
    EXPECT_EQ(address_vector(*plain, own, far).is_global, 1);
    const auto strict = port_on(IBV_LINK_LAYER_INFINIBAND, IBV_QPF_GRH_REQUIRED);
    EXPECT_EQ(address_vector(*strict, own, near).is_global, 1);
}

TEST(Reads, no_more_are_asked_at_once_than_the_device_can_and_the_peer_answers) {
    const auto asked = [](int device, std::uint8_t peer) {
        QueuePairAddress address;
        address.reads_answered = peer;
        return int{reads_asked(device, address)};
    };
    EXPECT_EQ(asked(16, 16), 16);
    EXPECT_EQ(asked(16, 4), 4);
    EXPECT_EQ(asked(2, 16), 2);
    EXPECT_EQ(asked(128, 255), 16);
    EXPECT_EQ(asked(16, 0), 1) << "it did not say";
    EXPECT_EQ(asked(0, 16), 0);
    EXPECT_EQ(int{reads_answered(128)}, 16);
    EXPECT_EQ(int{reads_answered(4)}, 4);
}

TEST(GidChoice, roce_v2_or_what_was_told) {
    const GidEntry table[] = {
        {0, GidKind::roce_v1, {1}}, {1, GidKind::roce_v2, {2}}, {3, GidKind::roce_v2, {3}}};
    EXPECT_EQ(choose_gid(table, {})->index, 1u);
    EXPECT_EQ(choose_gid(table, {.index = 0})->index, 0u);
    EXPECT_EQ(choose_gid(table, {.index = 3})->bytes[0], 3);
    EXPECT_FALSE(choose_gid(table, {.index = 2}).has_value());
    EXPECT_FALSE(choose_gid(std::span(table, 1), {}).has_value());
    const GidEntry infiniband[] = {{0, GidKind::infiniband, {9}}, {1, GidKind::infiniband, {8}}};
    EXPECT_EQ(choose_gid(infiniband, {})->index, 0u);
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
