// Receive queues and shared receive queues: on every backend.
#include <algorithm>

#include <softnic_shared_hub.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

using DriverReceives = DriverTest;

TEST_P(DriverReceives, received_bytes_are_scattered_over_the_posted_elements) {
    const auto bytes = pattern(9000);
    std::memcpy(a.at(0), bytes.data(), bytes.size());
    const Element into[] = {b.element(0, 5), b.element(1000, 6000), b.element(20000, 6000)};
    ASSERT_EQ(b.receive->post(mlx5::ReceiveRequest{1, into}), Errc::ok);
    const Element from = a.element(0, 9000);
    ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
    EXPECT_EQ(wait_one(b).bytes, 9000u);
    EXPECT_TRUE(holds(b, 0, std::span(bytes).first(5)));
    EXPECT_TRUE(holds(b, 1000, std::span(bytes).subspan(5, 6000)));
    EXPECT_TRUE(holds(b, 20000, std::span(bytes).subspan(6005)));
    EXPECT_EQ(wait_one(a).status, Errc::ok);
}

TEST_P(DriverReceives, a_full_queue_says_so_and_entries_are_posted_again_as_they_are) {
    std::uint64_t posted = 0;
    while (b.post_receive(posted * 100, 100, posted) == Errc::ok) ++posted;
    EXPECT_EQ(posted, b.receive->entries());
    EXPECT_EQ(b.post_receive(0, 100), Errc::would_block);
    EXPECT_EQ(b.receive->repost(1), Errc::would_block);
    const Element none{};
    EXPECT_NE(b.receive->post(mlx5::ReceiveRequest{0, std::span(&none, 1)}), Errc::ok);
    for (std::uint64_t i = 0; i < 3 * posted; ++i) {
        const auto bytes = pattern(100, static_cast<unsigned>(i));
        std::memcpy(a.at(0), bytes.data(), bytes.size());
        const Element from = a.element(0, 100);
        ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
        const Completion got = wait_one(b);
        EXPECT_EQ(got.id, i % posted);
        EXPECT_TRUE(holds(b, got.id * 100, bytes)) << i;
        ASSERT_EQ(wait_one(a).status, Errc::ok);
        ASSERT_EQ(b.receive->repost(1), Errc::ok);
    }
    EXPECT_EQ(b.completions->strays(), 0u);
}

TEST_P(DriverReceives, posted_before_the_connection_take_its_first_messages) {
    End c(options()), d(options());
    for (std::uint64_t id = 0; id < 5; ++id) ASSERT_EQ(d.post_receive(id * 100, 100, id), Errc::ok);
    c.connect(d.address());
    d.connect(c.address());
    const auto bytes = pattern(100);
    std::memcpy(c.at(0), bytes.data(), bytes.size());
    const Element from = c.element(0, 100);
    for (int i = 0; i < 5; ++i) ASSERT_EQ(c.post_send(std::span(&from, 1)), Errc::ok);
    std::vector<Completion> at_c, at_d;
    ASSERT_TRUE(
        poll_until({&c, &d}, {&at_c, &at_d}, [&] { return at_c.size() >= 5 && at_d.size() >= 5; }));
    for (std::uint64_t id = 0; id < 5; ++id) {
        EXPECT_EQ(at_d[id].id, id);
        EXPECT_TRUE(holds(d, id * 100, bytes));
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverReceives, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverReceives);

class DriverSharedReceives : public testing::TestWithParam<Backend> {
  protected:
    static softnic::test::HubOptions options() {
        softnic::test::HubOptions options;
        options.open = GetParam().open;
        return options;
    }
    softnic::test::Hub hub{options()};
};

TEST_P(DriverSharedReceives, messages_of_all_queue_pairs_take_entries_one_after_the_other) {
    for (std::size_t i = 0; i < 60; ++i) {
        auto& spoke = hub.spokes[i % hub.spokes.size()];
        const auto bytes = pattern(1 + i * 7, static_cast<unsigned>(i));
        ASSERT_EQ(hub.post_receive(i * 1000, 1000, i), Errc::ok);
        ASSERT_EQ(spoke.post_send(bytes), Errc::ok);
        ASSERT_TRUE(hub.poll_for(i + 1));
        const Completion& got = hub.seen[i];
        EXPECT_EQ(got.id, i);
        EXPECT_EQ(got.status, Errc::ok);
        EXPECT_EQ(got.queue_pair, spoke.number());
        EXPECT_EQ(got.bytes, bytes.size());
        EXPECT_TRUE(hub.holds(i * 1000, bytes)) << i;
    }
    EXPECT_EQ(hub.completions->strays(), 0u);
    EXPECT_EQ(hub.receives->outstanding(), 0u);
}

TEST_P(DriverSharedReceives, prebuilt_entries_are_refilled_and_a_full_queue_says_so) {
    std::vector<Element> elements;
    for (std::size_t i = 0; i < hub.receives->entries(); ++i)
        elements.push_back(hub.element(i * 100, 100));
    std::vector<mlx5::ReceiveRequest> entries;
    for (std::size_t i = 0; i < elements.size(); ++i)
        entries.push_back({i, std::span(&elements[i], 1)});
    ASSERT_EQ(hub.receives->prebuild(entries), Errc::ok);
    ASSERT_EQ(hub.receives->repost(hub.receives->capacity()), Errc::ok);
    EXPECT_EQ(hub.receives->repost(1), Errc::would_block);
    EXPECT_EQ(hub.post_receive(0, 100), Errc::would_block);
    for (std::size_t i = 0; i < 5 * elements.size(); ++i) {
        const auto bytes = pattern(100, static_cast<unsigned>(i));
        ASSERT_EQ(hub.spokes[i % 2].post_send(bytes), Errc::ok);
        ASSERT_TRUE(hub.poll_for(i + 1));
        EXPECT_EQ(hub.seen[i].status, Errc::ok);
        EXPECT_TRUE(hub.holds(hub.seen[i].id * 100, bytes)) << i;
        ASSERT_EQ(hub.receives->repost(1), Errc::ok);
    }
    EXPECT_EQ(hub.completions->strays(), 0u);
}

TEST_P(DriverSharedReceives, immediates_take_an_entry_and_messages_wait_for_a_refill) {
    End& peer = *hub.spokes[1].peer;
    WorkRequest write = peer.request(Opcode::write_immediate, 8192);
    const auto payload = pattern(24);
    write.inline_payload = payload;
    write.immediate = 0xcafe0002;
    ASSERT_EQ(peer.send->post(write), Errc::ok);
    EXPECT_TRUE(hub.quiet());
    ASSERT_EQ(hub.receives->post(mlx5::ReceiveRequest{1, {}}), Errc::ok);
    ASSERT_TRUE(hub.poll_for(1));
    EXPECT_EQ(hub.seen[0].id, 1u);
    EXPECT_EQ(hub.seen[0].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(hub.seen[0].immediate, 0xcafe0002u);
    EXPECT_TRUE(hub.holds(8192, payload));
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverSharedReceives, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverSharedReceives);

}  // namespace
}  // namespace verbatim::test
