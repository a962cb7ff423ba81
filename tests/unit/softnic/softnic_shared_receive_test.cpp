// Several connections of the software NIC on one shared receive queue, with and without strict
// doorbells, with 64- and 128-byte completions, and with rings so small that messages arrive piece
// by piece.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "softnic_shared_hub.hpp"
#include "softqueue/completion_ring.hpp"
#include "softqueue/queue_memory.hpp"
#include "softqueue/shared_receive_list.hpp"
#include "stall.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::CompletionKind;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

struct Variant {
    const char* name;
    std::size_t peers;
    bool strict;
    std::uint32_t entry_bytes;
    std::size_t ring_bytes;
};

class SharedReceives : public testing::TestWithParam<Variant> {
  protected:
    static HubOptions options() {
        HubOptions options;
        options.peers = GetParam().peers;
        options.device.strict_doorbells = GetParam().strict;
        options.device.completion_entry_bytes = GetParam().entry_bytes;
        options.device.ring_bytes = GetParam().ring_bytes;
        return options;
    }
    Hub hub{options()};
};

TEST_P(SharedReceives, messages_take_entries_in_the_order_of_the_list) {
    std::size_t count = 0;
    for (int round = 0; round < 20; ++round) {
        for (std::size_t i = 0; i < hub.spokes.size(); ++i) {
            const auto bytes = pattern(1 + count * 7, static_cast<unsigned>(count));
            ASSERT_EQ(hub.post_receive(count * 1000, 1000, count), Errc::ok);
            ASSERT_EQ(hub.spokes[i].post_send(bytes), Errc::ok);
            ASSERT_TRUE(hub.poll_for(count + 1));
            const Completion& got = hub.seen[count];
            EXPECT_EQ(got.id, count);
            EXPECT_EQ(got.status, Errc::ok);
            EXPECT_EQ(got.kind, CompletionKind::receive);
            EXPECT_EQ(got.queue_pair, hub.spokes[i].number());
            EXPECT_EQ(got.bytes, bytes.size());
            EXPECT_TRUE(hub.holds(count * 1000, bytes)) << count;
            ++count;
        }
    }
    EXPECT_EQ(hub.completions->strays(), 0u);
}

TEST_P(SharedReceives, received_bytes_are_scattered_over_the_posted_elements) {
    const auto bytes = pattern(9000);
    for (std::size_t i = 0; i < hub.spokes.size(); ++i) {
        const std::size_t at = i * 100000;
        const Element into[] = {hub.element(at, 5), hub.element(at + 1000, 6000),
                                hub.element(at + 20000, 6000)};
        ASSERT_EQ(hub.receives->post(mlx5::ReceiveRequest{i, into}), Errc::ok);
        ASSERT_EQ(hub.spokes[i].post_send(bytes), Errc::ok);
        ASSERT_TRUE(hub.poll_for(i + 1));
        EXPECT_EQ(hub.seen[i].bytes, 9000u);
        EXPECT_TRUE(hub.holds(at, std::span(bytes).first(5)));
        EXPECT_TRUE(hub.holds(at + 1000, std::span(bytes).subspan(5, 6000)));
        EXPECT_TRUE(hub.holds(at + 20000, std::span(bytes).subspan(6005)));
        EXPECT_EQ(hub.memory.data()[at + 5], std::byte{0});
        EXPECT_EQ(hub.memory.data()[at + 22995], std::byte{0});
    }
}

TEST_P(SharedReceives, messages_wait_for_a_refill_and_each_takes_one_entry) {
    for (Hub::Spoke& spoke : hub.spokes) ASSERT_EQ(spoke.post_send(pattern(100)), Errc::ok);
    EXPECT_TRUE(hub.quiet());
    for (Hub::Spoke& spoke : hub.spokes)
        EXPECT_EQ(receiver_not_ready_count(*spoke.peer->queue_pair), 1u);
    for (std::size_t i = 0; i < hub.spokes.size(); ++i) {
        ASSERT_EQ(hub.post_receive(i * 100, 100, i), Errc::ok);
        ASSERT_TRUE(hub.poll_for(i + 1));
        EXPECT_TRUE(hub.quiet()) << "one entry, one message";
        EXPECT_EQ(hub.seen[i].id, i);
        EXPECT_TRUE(hub.holds(i * 100, pattern(100)));
    }
    EXPECT_EQ(hub.seen_by_peers.size(), hub.spokes.size());
    EXPECT_EQ(hub.receives->outstanding(), 0u);
}

TEST_P(SharedReceives, immediates_of_writes_take_an_entry_too) {
    ASSERT_EQ(hub.receives->post(mlx5::ReceiveRequest{1, {}}), Errc::ok);
    ASSERT_EQ(hub.post_receive(0, 100, 2), Errc::ok);
    End& peer = *hub.spokes[1].peer;
    WorkRequest write = peer.request(Opcode::write_immediate, 8192);
    const auto payload = pattern(24);
    write.inline_payload = payload;
    write.immediate = 0xcafe0002;
    ASSERT_EQ(peer.send->post(write), Errc::ok);
    ASSERT_TRUE(hub.poll_for(1));
    ASSERT_EQ(hub.spokes[0].post_send(pattern(100)), Errc::ok);
    ASSERT_TRUE(hub.poll_for(2));
    EXPECT_EQ(hub.seen[0].id, 1u);
    EXPECT_EQ(hub.seen[0].kind, CompletionKind::receive_immediate);
    EXPECT_EQ(hub.seen[0].immediate, 0xcafe0002u);
    EXPECT_EQ(hub.seen[0].queue_pair, hub.spokes[1].number());
    EXPECT_EQ(hub.seen[1].id, 2u);
    EXPECT_TRUE(hub.holds(8192, payload));
    EXPECT_TRUE(hub.holds(0, pattern(100)));
}

// Messages that say whose they are and which, for buffers of kNumberedBytes.
constexpr std::size_t kNumberedBytes = 300;
using Says = std::array<std::uint64_t, 2>;  // queue pair that receives it, number

constexpr std::uint32_t numbered_length(std::uint64_t number) {
    return static_cast<std::uint32_t>(sizeof(Says) + number % 200);
}
Errc post_numbered(Hub::Spoke& spoke, std::uint64_t number) {
    End& peer = *spoke.peer;
    const std::size_t at = number % 128 * kNumberedBytes;  // more than can be outstanding
    const Says says{spoke.number(), number};
    if (peer.send->free_blocks() == 0) return Errc::would_block;
    std::memcpy(peer.at(at), says.data(), sizeof says);
    const Element from = peer.element(at, numbered_length(number));
    return peer.post_send(std::span(&from, 1));
}
void expect_numbered(const Hub& hub, const Completion& got, std::uint64_t number) {
    Says says;
    std::memcpy(says.data(), hub.memory.data() + got.id * kNumberedBytes, sizeof says);
    EXPECT_EQ(got.status, Errc::ok);
    EXPECT_EQ(says[0], got.queue_pair);
    EXPECT_EQ(says[1], number);
    EXPECT_EQ(got.bytes, numbered_length(number));
}
Errc prebuild_numbered(Hub& hub) {
    std::vector<Element> elements;
    std::vector<mlx5::ReceiveRequest> requests;
    for (std::uint32_t i = 0; i < hub.receives->entries(); ++i)
        elements.push_back(hub.element(i * kNumberedBytes, kNumberedBytes));
    for (const Element& element : elements)
        requests.push_back({requests.size(), std::span(&element, 1)});
    return hub.receives->prebuild(requests);
}

TEST_P(SharedReceives, a_refill_before_a_message_is_handled_does_not_overwrite_it) {
    constexpr std::size_t kMessages = 500;
    ASSERT_EQ(prebuild_numbered(hub), Errc::ok);
    ASSERT_EQ(hub.receives->repost(hub.receives->capacity()), Errc::ok);
    std::map<std::uint32_t, std::uint64_t> arrived;  // by queue pair
    std::vector<std::uint64_t> sent(hub.spokes.size());
    std::array<Completion, 1> one;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (std::size_t got = 0; got < kMessages * hub.spokes.size();) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        for (std::size_t i = 0; i < hub.spokes.size(); ++i) {
            hub.spokes[i].peer->poll();
            if (sent[i] < kMessages && post_numbered(hub.spokes[i], sent[i]) == Errc::ok) ++sent[i];
        }
        if (hub.completions->poll(one) == 0) continue;
        ASSERT_EQ(hub.receives->repost(1), Errc::ok);
        // What waits is delivered before this message is looked at.
        for (const Hub::Spoke& spoke : hub.spokes) execute(*spoke.queue_pair);
        expect_numbered(hub, one[0], arrived[one[0].queue_pair]++);
        ASSERT_FALSE(HasFailure());
        ++got;
    }
    EXPECT_EQ(hub.completions->strays(), 0u);
    EXPECT_EQ(hub.receives->outstanding(), hub.receives->capacity());
}

INSTANTIATE_TEST_SUITE_P(SoftNic, SharedReceives,
                         testing::Values(Variant{"two", 2, false, 64, 64 << 10},
                                         Variant{"three", 3, false, 64, 64 << 10},
                                         Variant{"strict", 3, true, 64, 64 << 10},
                                         Variant{"cqe128", 2, true, 128, 64 << 10},
                                         Variant{"small_ring", 3, false, 64, 256}),
                         [](const auto& variant) { return variant.param.name; });

TEST(SharedReceiveOrder, a_short_message_completes_before_a_long_one_that_took_its_entry_first) {
    HubOptions options;
    options.device.ring_bytes = 256;  // the long message arrives piece by piece
    Hub hub(options);
    const auto long_bytes = pattern(5000, 1), short_bytes = pattern(50, 2);
    for (int round = 0; round < 100; ++round) {
        hub.seen.clear();
        ASSERT_EQ(hub.post_receive(0, 5000, 1), Errc::ok);
        ASSERT_EQ(hub.post_receive(8000, 5000, 2), Errc::ok);
        ASSERT_EQ(hub.spokes[0].post_send(long_bytes), Errc::ok);
        ASSERT_EQ(hub.poll(), 0u);  // takes the first entry
        ASSERT_EQ(hub.spokes[1].post_send(short_bytes), Errc::ok);
        ASSERT_TRUE(hub.poll_for(2));
        ASSERT_EQ(hub.seen[0].id, 2u);
        ASSERT_EQ(hub.seen[0].queue_pair, hub.spokes[1].number());
        ASSERT_EQ(hub.seen[1].id, 1u);
        ASSERT_EQ(hub.seen[1].bytes, 5000u);
        ASSERT_TRUE(hub.holds(0, long_bytes));
        ASSERT_TRUE(hub.holds(8000, short_bytes));
        std::memset(hub.memory.data(), 0, 16000);
    }
}

// A queue pair without messages: completes whatever it can take until told to stop.
void take_and_complete(SharedReceiveList& list, CompletionRing& ring,
                       const std::atomic<bool>& stop) {
    mlx5::Cqe cqe;
    cqe.opcode_number = mlx5::be32(5);
    cqe.op_own = mlx5::make_op_own(mlx5::CqeOpcode::send, false);
    for (std::uint32_t idle = 0; !stop;) {
        std::uint16_t index = 0;
        const auto taken = list.take(index);
        ASSERT_NE(taken, SharedReceiveList::Taken::broken);
        if (taken == SharedReceiveList::Taken::nothing) {
            // Mostly spins: takers that sleep do not meet.
            if (++idle % 1024 == 0) std::this_thread::yield();
            continue;
        }
        cqe.wqe_counter = mlx5::be16(index);
        ASSERT_TRUE(ring.push(cqe)) << "more completions than entries";
    }
}

TEST(SharedReceiveThreads, takers_of_one_list_never_get_the_same_entry) {
    constexpr std::size_t kTakes = 2'000'000;  // or as many as there is time for
    SharedReceiveQueueMemory memory({.entries = 63}, 1);
    CompletionQueueMemory completion_memory(64, 64, 1);
    SharedReceiveList list(memory.view());
    CompletionRing ring(completion_memory.view());
    mlx5::SharedReceiveQueue receives(memory.view());
    mlx5::CompletionQueue completions(completion_memory.view());
    completions.attach(5, receives);
    ASSERT_EQ(receives.prebuild(std::vector<mlx5::ReceiveRequest>(64)), Errc::ok);
    std::atomic<bool> stop = false;
    std::vector<std::thread> takers;
    for (int i = 0; i < 3; ++i) takers.emplace_back([&] { take_and_complete(list, ring, stop); });
    std::array<Completion, 64> found;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    std::size_t got = 0;
    while (got < kTakes && completions.strays() == 0 &&
           std::chrono::steady_clock::now() < deadline) {
        EXPECT_EQ(receives.repost(receives.free_entries()), Errc::ok);
        const std::size_t count = completions.poll(found);
        if (count == 0) std::this_thread::yield();
        got += count;
    }
    stop = true;
    for (std::thread& taker : takers) taker.join();
    EXPECT_GT(got, 0u);
    EXPECT_EQ(completions.strays(), 0u);
}

// The engines of these queue pairs run in two threads: in the one that polls the receives, and in
// one that polls the completions of sends.
TEST(SharedReceiveThreads, queue_pairs_polled_by_two_threads_never_take_the_same_entry) {
    constexpr std::size_t kMessages = 3000;
    HubOptions options;
    options.peers = 3;
    Hub hub(options);
    std::atomic<bool> stop = false;
    std::thread other([&] {
        mlx5::CompletionQueue sends(hub.send_completion_queue->view());
        std::array<Completion, 4> none;
        while (!stop) {
            EXPECT_EQ(sends.poll(none), 0u);
            std::this_thread::yield();
        }
    });
    std::vector<bool> posted(16);
    std::size_t sent = 0, got = 0;
    verbatim::test::Stall stall;
    while (got < kMessages && !stall.is_over(got) && !HasFailure()) {
        for (std::uint64_t id = 0; id < 15; ++id) {
            if (!posted[id]) posted[id] = hub.post_receive(id * 100, 100, id) == Errc::ok;
        }
        for (Hub::Spoke& spoke : hub.spokes) {
            if (sent < kMessages && spoke.post_send(pattern(90)) == Errc::ok) ++sent;
            spoke.peer->poll();
        }
        hub.seen.clear();
        got += hub.poll();
        for (const Completion& one : hub.seen) {
            EXPECT_EQ(one.status, Errc::ok);
            EXPECT_TRUE(posted[one.id]) << "completed twice";
            posted[one.id] = false;
        }
    }
    stop = true;
    other.join();
    EXPECT_EQ(got, kMessages);
    EXPECT_EQ(hub.completions->strays(), 0u);
}

}  // namespace
}  // namespace verbatim::softnic::test
