// What goes wrong on one connection of a shared receive queue stays there: its entry comes back
// once, the others go on.
#include <gtest/gtest.h>

#include <functional>

#include "softnic_shared_hub.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;

void expect_goes_on(Hub& hub, std::size_t spoke, std::uint64_t id) {
    const auto bytes = pattern(200, static_cast<unsigned>(id));
    const std::size_t before = hub.seen.size();
    ASSERT_EQ(hub.spokes[spoke].post_send(bytes), Errc::ok);
    ASSERT_TRUE(hub.poll_for(before + 1));
    const Completion& got = hub.seen.back();
    EXPECT_EQ(got.status, Errc::ok);
    EXPECT_EQ(got.id, id);
    EXPECT_EQ(got.queue_pair, hub.spokes[spoke].number());
    EXPECT_TRUE(hub.holds(id * 1000, bytes));
}

TEST(SharedErrors, a_message_too_long_for_its_entry_fails_its_connection_only) {
    Hub hub({.peers = 3});
    ASSERT_EQ(hub.post_receive(0, 99, 0), Errc::ok);
    for (std::uint64_t id = 1; id < 4; ++id)
        ASSERT_EQ(hub.post_receive(id * 1000, 1000, id), Errc::ok);
    ASSERT_EQ(hub.spokes[1].post_send(pattern(100)), Errc::ok);
    ASSERT_TRUE(hub.poll_for(1));
    EXPECT_EQ(hub.seen[0].id, 0u);
    EXPECT_EQ(hub.seen[0].status, Errc::local_length);
    EXPECT_EQ(hub.seen[0].kind, CompletionKind::receive);
    EXPECT_EQ(hub.seen[0].queue_pair, hub.spokes[1].number());
    EXPECT_TRUE(hub.quiet()) << "the other entries are not this connection's to flush";
    EXPECT_EQ(hub.receives->outstanding(), 3u);
    ASSERT_EQ(hub.seen_by_peers.size(), 1u);
    EXPECT_EQ(hub.seen_by_peers[0].status, Errc::remote_invalid);
    EXPECT_EQ(hub.spokes[1].queue_pair->state(), QueuePairState::error);
    expect_goes_on(hub, 0, 1);
    expect_goes_on(hub, 2, 2);
    expect_goes_on(hub, 0, 3);
    EXPECT_EQ(hub.completions->strays(), 0u);
}

TEST(SharedErrors, an_entry_with_a_bad_key_comes_back_with_the_error) {
    Hub hub;
    Element into = hub.element(0, 100);
    into.local_key ^= 0x300;
    ASSERT_EQ(hub.receives->post(mlx5::ReceiveRequest{5, std::span(&into, 1)}), Errc::ok);
    ASSERT_EQ(hub.post_receive(1000, 1000, 1), Errc::ok);
    ASSERT_EQ(hub.spokes[0].post_send(pattern(100)), Errc::ok);
    ASSERT_TRUE(hub.poll_for(1));
    EXPECT_EQ(hub.seen[0].id, 5u);
    EXPECT_EQ(hub.seen[0].status, Errc::local_protection);
    expect_goes_on(hub, 1, 1);
}

TEST(SharedErrors, a_failed_queue_pair_leaves_the_posted_entries_to_the_others) {
    Hub hub({.peers = 3});
    for (std::uint64_t id = 1; id < 4; ++id)
        ASSERT_EQ(hub.post_receive(id * 1000, 1000, id), Errc::ok);
    hub.spokes[0].queue_pair->fail();
    EXPECT_TRUE(hub.quiet());
    EXPECT_EQ(hub.receives->outstanding(), 3u);
    expect_goes_on(hub, 1, 1);
    hub.spokes[1].queue_pair.reset();
    EXPECT_TRUE(hub.quiet());
    expect_goes_on(hub, 2, 2);
    EXPECT_EQ(hub.receives->outstanding(), 1u);
}

// A message that has taken an entry and is half there when its connection ends.
struct Ending {
    const char* name;
    std::function<void(Hub::Spoke&)> end;
};
class HalfAMessage : public testing::TestWithParam<Ending> {};

TEST_P(HalfAMessage, gives_its_entry_back_once_when_the_connection_ends) {
    HubOptions options;
    options.device.ring_bytes = 256;
    Hub hub(options);
    ASSERT_EQ(hub.post_receive(10000, 5000, 7), Errc::ok);
    for (std::uint64_t id = 1; id < 3; ++id)
        ASSERT_EQ(hub.post_receive(id * 1000, 1000, id), Errc::ok);
    ASSERT_EQ(hub.spokes[0].post_send(pattern(5000)), Errc::ok);
    ASSERT_EQ(hub.poll(), 0u);
    const std::uint32_t number = hub.spokes[0].number();
    expect_goes_on(hub, 1, 1);
    ASSERT_TRUE(hub.seen.size() == 1) << "the long message must not be complete yet";
    GetParam().end(hub.spokes[0]);
    ASSERT_TRUE(hub.poll_for(2));
    EXPECT_EQ(hub.seen[1].id, 7u);
    EXPECT_EQ(hub.seen[1].status, Errc::flushed);
    EXPECT_EQ(hub.seen[1].queue_pair, number);
    EXPECT_TRUE(hub.quiet());
    EXPECT_EQ(hub.receives->outstanding(), 1u);
    expect_goes_on(hub, 1, 2);
    EXPECT_EQ(hub.completions->strays(), 0u);
}

INSTANTIATE_TEST_SUITE_P(
    SharedErrors, HalfAMessage,
    testing::Values(Ending{"failed", [](Hub::Spoke& spoke) { spoke.queue_pair->fail(); }},
                    Ending{"reset", [](Hub::Spoke& spoke) { spoke.queue_pair->reset(); }},
                    Ending{"destroyed", [](Hub::Spoke& spoke) { spoke.queue_pair.reset(); }},
                    Ending{"peer_lost", [](Hub::Spoke& spoke) { spoke.peer.reset(); }}),
    [](const auto& ending) { return ending.param.name; });

TEST(SharedErrors, an_entry_that_finds_the_completion_queue_full_comes_back_when_there_is_room) {
    HubOptions options;
    options.completions = 2;
    Hub hub(options);
    for (std::uint64_t id = 0; id < 3; ++id)
        ASSERT_EQ(hub.post_receive(id * 1000, 1000, id), Errc::ok);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(hub.spokes[0].post_send(pattern(10)), Errc::ok);
    execute(*hub.spokes[0].queue_pair);
    EXPECT_EQ(hub.poll(), 2u);
    ASSERT_TRUE(hub.poll_for(3));
    EXPECT_EQ(hub.seen[1].status, Errc::ok);
    EXPECT_EQ(hub.seen[2].id, 2u);
    EXPECT_EQ(hub.seen[2].status, Errc::local_queue_pair);
    EXPECT_EQ(hub.receives->outstanding(), 0u);
}

TEST(SharedErrors, a_doorbell_record_or_link_out_of_the_queue_is_refused_with_the_reason) {
    const auto refused = [](auto spoil) {
        Hub hub;
        ASSERT_EQ(hub.post_receive(0, 1000, 1), Errc::ok);
        spoil(hub.receive_queue->view());
        ASSERT_EQ(hub.spokes[0].post_send(pattern(10)), Errc::ok);
        EXPECT_TRUE(hub.quiet());
        EXPECT_EQ(hub.spokes[0].queue_pair->state(), QueuePairState::error);
        EXPECT_NE(failure_text(*hub.spokes[0].queue_pair).find("shared receive queue"),
                  std::string::npos);
        ASSERT_EQ(hub.seen_by_peers.size(), 1u);
        EXPECT_EQ(hub.seen_by_peers[0].status, Errc::remote_operation);
    };
    refused([](const mlx5::SharedReceiveQueueView& view) {
        *view.doorbell_record = mlx5::be32(view.entries).raw();
    });
    refused([](const mlx5::SharedReceiveQueueView& view) {
        view.buffer[2] = std::byte{0x40};  // the first link, high byte
    });
}

TEST(SharedErrors, impossible_sizes_and_foreign_queues_are_refused) {
    const auto device = open_device();
    EXPECT_THROW(device->create_shared_receive_queue({.entries = 32768}), Error);
    EXPECT_THROW(device->create_shared_receive_queue({.max_elements = 63}), Error);
    const auto largest =
        device->create_shared_receive_queue({.entries = 32767, .max_elements = 62});
    EXPECT_EQ(largest->view().entries, 32768u);
    EXPECT_EQ(largest->view().stride_log2, 10u);
    const auto smallest = device->create_shared_receive_queue({.entries = 0, .max_elements = 0});
    EXPECT_EQ(smallest->view().entries, 2u);
    EXPECT_EQ(smallest->view().stride_log2, 5u);

    struct Foreign final : SharedReceiveQueueHandle {
        const mlx5::SharedReceiveQueueView& view() const noexcept override { return nothing; }
        mlx5::SharedReceiveQueueView nothing;
    } foreign;
    const auto completions = device->create_completion_queue(16);
    QueuePairOptions wanted;
    wanted.send_completions = wanted.receive_completions = completions.get();
    wanted.shared_receives = &foreign;
    EXPECT_THROW(device->create_queue_pair(wanted), Error);
    wanted.shared_receives = largest.get();
    const auto sharing = device->create_queue_pair(wanted);
    EXPECT_EQ(sharing->view().receive_entries, 0u);
    EXPECT_EQ(sharing->view().receive_buffer, nullptr);
    EXPECT_THROW(mlx5::ReceiveQueue{sharing->view()}, Error);
}

}  // namespace
}  // namespace verbatim::softnic::test
