// Doors: how peers wake the thread that waits for a completion channel, without a thread of its
// device between.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "queue_pair.hpp"
#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

EndOptions waking() {
    EndOptions options;
    options.channel = true;
    return options;
}

bool readable(const End& end) {
    pollfd entry{end.channel->file(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

const std::shared_ptr<const WakeFile>& door_to_peer(QueuePairHandle& queue_pair) {
    return static_cast<QueuePair&>(queue_pair).turns().engines().shared().connection.waker;
}

// Rings since the last call. The waiting thread reads none.
std::uint64_t rings(const WakeFile& door) {
    std::uint64_t count = 0;
    return read(door.file(), &count, sizeof count) == sizeof count ? count : 0;
}

// A further connection of the same two ends.
struct Further {
    Further(End& a, End& b, CompletionQueueHandle* send, CompletionQueueHandle* receive) {
        QueuePairOptions options{.send_blocks = 16, .receive_entries = 4};
        options.send_completions = options.receive_completions = a.completion_queue.get();
        from = a.device->create_queue_pair(options);
        options.send_completions = send;
        options.receive_completions = receive;
        to = b.device->create_queue_pair(options);
        to->connect(from->address(), 5000);
        from->connect(to->address(), 5000);
    }
    std::unique_ptr<QueuePairHandle> from, to;
};

class Doors : public testing::Test {
  protected:
    Pair pair{waking()};
    End& a = pair.a;
    End& b = pair.b;
};

TEST_F(Doors, ring_is_one_event_of_an_armed_queue) {
    const auto& door = door_to_peer(*a.queue_pair);
    ASSERT_NE(door, nullptr);
    for (int i = 0; i < 10; ++i) {
        ASSERT_EQ(b.completions->arm(), Errc::ok);
        EXPECT_FALSE(readable(b));
        EXPECT_TRUE(door->wake());
        EXPECT_TRUE(door->wake());
        ASSERT_TRUE(readable(b));
        EXPECT_EQ(b.channel->take_event(), b.completion_queue.get());
        b.completions->count_event();
        EXPECT_EQ(b.channel->take_event(), nullptr);
        EXPECT_FALSE(readable(b));
    }
}

TEST_F(Doors, ring_of_a_queue_that_is_not_armed_is_no_event) {
    EXPECT_TRUE(door_to_peer(*a.queue_pair)->wake());
    EXPECT_EQ(b.channel->take_event(), nullptr);
    EXPECT_FALSE(readable(b));
}

// It names no queue, and a peer tells of one sleep once.
TEST_F(Doors, ring_is_an_event_of_each_armed_queue_of_the_channel) {
    const auto other = b.device->create_completion_queue(64, b.channel.get());
    mlx5::CompletionQueue others(other->view());
    ASSERT_EQ(others.arm(), Errc::ok);
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    EXPECT_TRUE(door_to_peer(*a.queue_pair)->wake());
    const auto* const first = b.channel->take_event();
    EXPECT_TRUE(readable(b)) << "the other one's event waits";
    const auto* const second = b.channel->take_event();
    EXPECT_NE(first, second);
    EXPECT_TRUE(first != nullptr && second != nullptr);
    EXPECT_EQ(b.channel->take_event(), nullptr);
}

TEST_F(Doors, messages_for_one_sleep_ring_once) {
    const auto& door = door_to_peer(*a.queue_pair);
    const mlx5::Element from = a.element(0, 8);
    for (int i = 0; i < 5; ++i) {
        for (int message = 0; message < 3; ++message) ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
        ASSERT_EQ(b.completions->arm(), Errc::ok);
        for (int message = 0; message < 3; ++message)
            ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
        ASSERT_EQ(b.channel->take_event(), b.completion_queue.get());
        b.completions->count_event();
        EXPECT_EQ(rings(*door), 1u);
        while (a.poll().size() + b.poll().size() != 0) continue;
    }
}

TEST_F(Doors, queue_pairs_of_one_peer_share_one_that_ends_with_them) {
    CompletionQueueHandle* const queue = b.completion_queue.get();
    auto further = std::make_unique<Further>(a, b, queue, queue);
    EXPECT_EQ(door_to_peer(*further->from), door_to_peer(*a.queue_pair));
    const std::weak_ptr<const WakeFile> file = door_to_peer(*a.queue_pair);
    a.queue_pair.reset();
    b.queue_pair.reset();
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    EXPECT_TRUE(door_to_peer(*further->from)->wake());
    EXPECT_EQ(b.channel->take_event(), queue);
    b.completions->count_event();

    const Descriptor kept(dup(door_to_peer(*further->from)->file()));
    further.reset();
    EXPECT_TRUE(file.expired());
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    const std::uint64_t one = 1;
    ASSERT_EQ(write(kept.get(), &one, sizeof one), ssize_t{sizeof one});
    EXPECT_FALSE(readable(b)) << "the door is no more, though its file is kept";
    further = std::make_unique<Further>(a, b, queue, queue);
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    EXPECT_TRUE(door_to_peer(*further->from)->wake());
    EXPECT_EQ(b.channel->take_event(), queue);
}

// Its sleeps are two, which one ring could not tell apart.
TEST_F(Doors, queue_pair_of_two_completion_queues_has_none_and_wakes) {
    const auto other = b.device->create_completion_queue(64, b.channel.get());
    const Further further(a, b, other.get(), b.completion_queue.get());
    EXPECT_EQ(door_to_peer(*further.from), nullptr);
    mlx5::ReceiveQueue receives(further.to->view());
    const mlx5::Element into = b.element(0, 100);
    ASSERT_EQ(receives.post({.elements = std::span(&into, 1)}), Errc::ok);
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    mlx5::SendQueue sends(further.from->view());
    mlx5::WorkRequest message;
    message.opcode = mlx5::Opcode::send;
    ASSERT_EQ(sends.post(message), Errc::ok);
    pollfd entry{b.channel->file(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20000), 1);
    EXPECT_EQ(b.channel->take_event(), b.completion_queue.get());
}

// The device's control thread wakes instead.
TEST_F(Doors, full_door_neither_holds_up_its_peer_nor_loses_a_wake_up) {
    const std::uint64_t most = ~std::uint64_t{1};
    ASSERT_EQ(write(door_to_peer(*a.queue_pair)->file(), &most, sizeof most), ssize_t{sizeof most});
    EXPECT_EQ(b.channel->take_event(), nullptr);
    ASSERT_EQ(b.post_receive(0, 100), Errc::ok);
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    const mlx5::Element from = a.element(0, 8);
    ASSERT_EQ(a.post_send(std::span(&from, 1)), Errc::ok);
    pollfd entry{b.channel->file(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 20000), 1);
    EXPECT_EQ(b.channel->take_event(), b.completion_queue.get());
}

// With its last queue pair a peer rings, and ends its session: the door goes, its ring does not.
TEST(DoorsOfEndedPeers, lose_no_ring) {
    for (int i = 0; i < 100; ++i) {
        Pair pair(waking());
        ASSERT_EQ(pair.b.completions->arm(), Errc::ok);
        pair.a.queue_pair.reset();
        pollfd entry{pair.b.channel->file(), POLLIN, 0};
        // A ring may come before its event: then another follows.
        CompletionQueueHandle* event = nullptr;
        while (event == nullptr) {
            ASSERT_EQ(::poll(&entry, 1, 20000), 1) << i;
            event = pair.b.channel->take_event();
        }
        EXPECT_EQ(event, pair.b.completion_queue.get());
    }
}

TEST_F(Doors, counted_event_is_found_behind_more_rings_than_one_look_takes) {
    std::vector<std::shared_ptr<WakeDoor>> many;
    auto& channel = static_cast<CompletionChannel&>(*b.channel);
    for (std::uint64_t session = 1000; session < 1020; ++session)
        many.push_back(channel.door_for(session));
    for (const auto& door : many) ASSERT_TRUE(door->file()->wake());
    ASSERT_EQ(b.completions->arm(), Errc::ok);
    ASSERT_EQ(b.post_write(pattern(8), 0), Errc::ok);
    EXPECT_EQ(b.channel->take_event(), b.completion_queue.get());
}

}  // namespace
}  // namespace verbatim::softnic::test
