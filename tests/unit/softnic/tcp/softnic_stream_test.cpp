// The tcp port between two devices of this process: what the behaviour tests of the driver
// (tests/interop/driver) do not reach: lengths beyond frames, rings and windows, order, regions
// that go, queue pairs that are reset, threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "softnic_frames.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

EndOptions large_options(std::size_t ring_bytes) {
    EndOptions options = wire_options();
    options.memory_bytes = 8 << 20;
    options.device.ring_bytes = ring_bytes;
    return options;
}

constexpr std::size_t kHalf = 4 << 20;
const std::vector<std::size_t> kLengths{1,      7,      8,      9,       4079,   4080,
                                        4081,   4097,   65503,  65504,   65505,  65536,
                                        200001, 262144, 262145, 1000003, 3999999};

class Streams : public testing::TestWithParam<std::size_t> {
  protected:
    Pair pair{large_options(GetParam())};
    End& a = pair.a;
    End& b = pair.b;

    mlx5::Completion finish(const WorkRequest& request) {
        EXPECT_EQ(a.send->post(request), Errc::ok);
        const std::size_t before = pair.seen_a.size();
        EXPECT_TRUE(pair.poll_for(before + 1, 0));
        return pair.seen_a.size() > before ? pair.seen_a.back() : mlx5::Completion{};
    }
};

TEST_P(Streams, writes_of_any_length_and_alignment_land_whole) {
    for (const std::size_t bytes : kLengths)
        for (const std::size_t offset : {std::size_t{0}, std::size_t{4093}}) {
            const auto payload = pattern(bytes, static_cast<unsigned>(bytes));
            std::copy(payload.begin(), payload.end(), a.at(0));
            std::memset(b.at(offset), 0, bytes + 8);
            const Element from = a.element(0, bytes);
            WorkRequest write = a.request(Opcode::write, offset);
            write.elements = std::span(&from, 1);
            ASSERT_EQ(finish(write).status, Errc::ok) << bytes;
            EXPECT_TRUE(std::equal(payload.begin(), payload.end(), b.at(offset))) << bytes;
            EXPECT_EQ(b.value<std::uint8_t>(offset + bytes), 0) << bytes;
        }
}

TEST_P(Streams, reads_of_any_length_and_alignment_bring_what_is_there) {
    const auto payload = pattern(kHalf);
    std::copy(payload.begin(), payload.end(), b.at(5));
    for (const std::size_t bytes : kLengths) {
        std::memset(a.at(0), 0, bytes + 8);
        const Element into[] = {a.element(0, (bytes + 1) / 2), a.element(kHalf, bytes / 2)};
        WorkRequest read = a.request(Opcode::read, 5);
        read.elements = std::span(into, bytes == 1 ? 1 : 2);
        const auto done = finish(read);
        ASSERT_EQ(done.status, Errc::ok) << bytes;
        EXPECT_EQ(done.bytes, bytes);
        const auto half = static_cast<std::ptrdiff_t>((bytes + 1) / 2);
        EXPECT_TRUE(std::equal(payload.begin(), payload.begin() + half, a.at(0))) << bytes;
        EXPECT_TRUE(std::equal(payload.begin() + half,
                               payload.begin() + static_cast<std::ptrdiff_t>(bytes), a.at(kHalf)))
            << bytes;
    }
}

// More than are answered at once, and all in their order.
TEST_P(Streams, many_reads_and_atomics_go_side_by_side) {
    constexpr std::uint64_t kRounds = 40;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        const std::uint64_t value = 1000 + i;
        std::memcpy(b.at(64 + 8 * i), &value, sizeof value);
    }
    std::size_t posted = 0;
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        const Element into = a.element(8 * i, 8);
        WorkRequest request = a.request(i % 2 == 0 ? Opcode::read : Opcode::fetch_add, 64 + 8 * i);
        request.elements = std::span(&into, 1);
        request.swap_or_add = 5;
        request.id = i;
        ASSERT_EQ(a.send->post(request), Errc::ok);
        ++posted;
    }
    ASSERT_TRUE(pair.poll_for(posted, 0));
    for (std::uint64_t i = 0; i < kRounds; ++i) {
        EXPECT_EQ(pair.seen_a[i].id, i);
        EXPECT_EQ(pair.seen_a[i].status, Errc::ok);
        EXPECT_EQ(a.value<std::uint64_t>(8 * i), 1000 + i);
        EXPECT_EQ(b.value<std::uint64_t>(64 + 8 * i), 1000 + i + (i % 2 == 0 ? 0 : 5));
    }
}

TEST_P(Streams, messages_longer_than_all_buffers_arrive_in_both_directions) {
    const auto payload = pattern(3 << 20);
    for (End* end : {&a, &b}) {
        std::copy(payload.begin(), payload.end(), end->at(0));
        ASSERT_EQ(end->post_receive(kHalf, 3 << 20, 1), Errc::ok);
    }
    for (End* end : {&a, &b}) {
        const Element from = end->element(0, 3 << 20);
        ASSERT_EQ(end->post_send(std::span(&from, 1), 2), Errc::ok);
    }
    ASSERT_TRUE(pair.poll_for(2, 2));
    for (const auto& seen : {pair.seen_a, pair.seen_b})
        for (const auto& completion : seen) EXPECT_EQ(completion.status, Errc::ok);
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), a.at(kHalf)));
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), b.at(kHalf)));
}

// What lies behind a message without a receive is discarded when the ring is full, and sent again;
// meanwhile the other direction works.
TEST_P(Streams, messages_without_a_receive_wait_and_stop_nothing_the_other_way) {
    constexpr std::size_t kBytes = 20000, kMessages = 12;
    for (std::size_t i = 0; i < kMessages; ++i) {
        const auto payload = pattern(kBytes, static_cast<unsigned>(i));
        std::copy(payload.begin(), payload.end(), a.at(i * kBytes));
        const Element from = a.element(i * kBytes, kBytes);
        ASSERT_EQ(a.post_send(std::span(&from, 1), i), Errc::ok);
    }
    ASSERT_EQ(b.post_write(pattern(64), kHalf, 99), Errc::ok);
    ASSERT_TRUE(pair.poll_for(0, 1));
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(a.poll().empty());
    EXPECT_GE(receiver_not_ready_count(*a.queue_pair), 1u);
    for (std::size_t i = 0; i < kMessages; ++i) {
        ASSERT_EQ(b.post_receive(i * kBytes, kBytes, i), Errc::ok);
        ASSERT_TRUE(pair.poll_for(i + 1, i + 2)) << i;
        EXPECT_EQ(pair.seen_b[i + 1].id, i);
        EXPECT_EQ(pair.seen_a[i].id, i);
        const auto payload = pattern(kBytes, static_cast<unsigned>(i));
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), b.at(i * kBytes))) << i;
    }
}

INSTANTIATE_TEST_SUITE_P(Rings, Streams, testing::Values(0, 4096, 512));

TEST(Stream, is_reset_and_connected_again) {
    Pair pair(wire_options());
    for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(pair.a.post_write(pattern(8), 64, 1), Errc::ok);
        ASSERT_TRUE(pair.poll_for(static_cast<std::size_t>(i) + 1, 0));
        EXPECT_EQ(pair.seen_a.back().status, Errc::ok);
        for (End* end : {&pair.a, &pair.b}) {
            end->queue_pair->reset();
            end->send->reset();
            end->receive->reset();
        }
        pair.b.connect(pair.a.address());
        pair.a.connect(pair.b.address());
    }
}

TEST(Stream, ends_for_both_sides_when_one_queue_pair_goes) {
    Pair pair(wire_options());
    ASSERT_EQ(pair.b.post_receive(0, 64, 5), Errc::ok);
    pair.a.queue_pair->fail();
    ASSERT_TRUE(pair.poll_for(0, 0));
    const Element from = pair.b.element(0, 8);
    ASSERT_EQ(pair.b.post_send(std::span(&from, 1), 6), Errc::ok);
    ASSERT_TRUE(poll_until({&pair.b}, {&pair.seen_b}, [&] { return pair.seen_b.size() == 2; }));
    for (const mlx5::Completion& seen : pair.seen_b) {
        // The send is flushed, too, where this side had heard of the end before it posted.
        ASSERT_TRUE(seen.id == 5 || seen.id == 6);
        EXPECT_TRUE(seen.status == Errc::flushed ||
                    (seen.id == 6 && seen.status == Errc::retry_exceeded));
    }
    EXPECT_NE(pair.seen_b[0].id, pair.seen_b[1].id);
}

// The key ends, and with it every write that was on its way.
TEST(Stream, writes_nothing_any_more_once_a_region_is_released) {
    Pair pair(wire_options());
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        std::uint64_t value = 0;
        while (!stop) {
            ++value;
            if (pair.a.post_write(std::as_bytes(std::span(&value, 1)), 4096) == Errc::flushed)
                break;
            for (const auto& completion : pair.a.poll()) pair.seen_a.push_back(completion);
            if (pair.a.queue_pair->state() == QueuePairState::error) break;
        }
    });
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (watch(pair.b, 4096) == 0 && std::chrono::steady_clock::now() < deadline) pair.b.poll();
    std::thread responder([&] {
        while (!stop) pair.b.poll();
    });
    pair.b.region->release();
    std::memset(pair.b.at(4096), 0, 8);
    for (int i = 0; i < 2000; ++i) {
        ASSERT_EQ(watch(pair.b, 4096), 0u);
        std::this_thread::yield();
    }
    stop = true;
    writer.join();
    responder.join();
}

TEST(Stream, carries_two_threads_that_write_and_poll_memory) {
    Pair pair(wire_options());
    constexpr std::uint64_t kRounds = 2000;
    const auto play = [](End& end, bool first) {
        for (std::uint64_t i = 1; i <= kRounds; ++i) {
            if (first && end.post_write(std::as_bytes(std::span(&i, 1)), 0) != Errc::ok) return;
            while (watch(end, 0) < i) end.poll();
            if (!first && end.post_write(std::as_bytes(std::span(&i, 1)), 0) != Errc::ok) return;
        }
    };
    std::thread other([&] { play(pair.b, false); });
    play(pair.a, true);
    other.join();
    EXPECT_EQ(watch(pair.a, 0), kRounds);
}

// Each arming hands the stream over to the engine thread, until the poller does not come any more.
TEST(Stream, goes_while_another_thread_polls_and_arms_its_queue) {
    EndOptions options = wire_options();
    options.channel = true;
    Pair pair(options);
    std::atomic<bool> stop{false};
    std::thread poller([&] {
        while (!stop) {
            EXPECT_TRUE(pair.a.poll().empty());
            EXPECT_EQ(pair.a.completions->arm(), Errc::ok);
        }
    });
    for (int i = 0; i < 20; ++i) {
        for (End* end : {&pair.a, &pair.b}) end->queue_pair->reset();
        pair.b.connect(pair.a.address());
        pair.a.connect(pair.b.address());
    }
    stop = true;
    poller.join();
}

TEST(Stream, is_refused_where_the_sides_have_no_port_in_common) {
    EndOptions shared;
    shared.device.port = PortKind::shm;
    End a(wire_options()), b(shared);
    for (End* end : {&a, &b}) try {
            end->connect(end == &a ? b.address() : a.address());
            ADD_FAILURE();
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::unsupported);
            EXPECT_NE(std::string(error.what()).find("no port in common"), std::string::npos);
            EXPECT_NE(error.remedy().find("[device.softnic] port"), std::string::npos);
        }
}

}  // namespace
}  // namespace verbatim::softnic::test
