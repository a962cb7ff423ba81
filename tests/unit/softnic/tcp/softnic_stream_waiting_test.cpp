// Who drives a stream: a program that computes still answers, a program that sleeps for an event is
// woken, and threads that poll one queue share the work.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <thread>

#include <verbatim/mlx5/completion_wait.hpp>

#include "ports/tcp/peer_stream.hpp"
#include "queue_pair.hpp"
#include "softnic_frames.hpp"
#include "softnic_meeting.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

TEST(StreamWaiting, a_program_that_computes_still_answers) {
    Pair pair(wire_options());
    const auto payload = pattern(100000);
    for (int round = 0; round < 5; ++round) {
        // Of these b polls none.
        std::copy(payload.begin(), payload.end(), pair.a.at(0));
        const Element from = pair.a.element(0, payload.size());
        WorkRequest write = pair.a.request(Opcode::write, 4096);
        write.elements = std::span(&from, 1);
        ASSERT_EQ(pair.a.send->post(write), Errc::ok);
        const Element into = pair.a.element(200000, payload.size());
        WorkRequest read = pair.a.request(Opcode::read, 4096);
        read.elements = std::span(&into, 1);
        ASSERT_EQ(pair.a.send->post(read), Errc::ok);
        const std::size_t wanted = pair.seen_a.size() + 2;
        ASSERT_TRUE(
            poll_until({&pair.a}, {&pair.seen_a}, [&] { return pair.seen_a.size() >= wanted; }));
        EXPECT_EQ(pair.seen_a.back().status, Errc::ok);
        EXPECT_TRUE(std::equal(payload.begin(), payload.end(), pair.a.at(200000)));
        std::memset(pair.a.at(200000), 0, payload.size());
        pair.b.poll();  // now and then it does
    }
}

// Nothing is polled at all: the engine threads of both sides do everything.
TEST(StreamWaiting, requests_end_though_nobody_polls) {
    Pair pair(wire_options());
    constexpr std::uint64_t kLast = 500;
    ASSERT_EQ(pair.a.post_write(std::as_bytes(std::span(&kLast, 1)), 64, 1), Errc::ok);
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (watch(pair.b, 64) != kLast) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_EQ(pair.b.post_receive(0, 16, 3), Errc::ok);
    const Element from = pair.a.element(64, 8);
    ASSERT_EQ(pair.a.post_send(std::span(&from, 1), 2), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 1));
    EXPECT_EQ(pair.seen_a[1].status, Errc::ok);
    EXPECT_EQ(pair.seen_b[0].id, 3u);
}

TEST(StreamWaiting, an_armed_queue_is_woken_by_the_peer) {
    EndOptions options = wire_options();
    options.channel = true;
    Pair pair(options);
    for (int round = 0; round < 20; ++round) {
        ASSERT_EQ(pair.b.post_receive(0, 64, 7), Errc::ok);
        std::thread sender([&] {
            usleep(2000);
            const Element from = pair.a.element(0, 8);
            EXPECT_EQ(pair.a.post_send(std::span(&from, 1), 8), Errc::ok);
            std::vector<mlx5::Completion> seen;
            EXPECT_TRUE(poll_until({&pair.a}, {&seen}, [&] { return !seen.empty(); }));
        });
        std::array<mlx5::Completion, 4> found;
        const std::size_t count =
            mlx5::wait_and_poll(*pair.b.completions, *pair.b.channel, found, kPatience);
        sender.join();
        ASSERT_EQ(count, 1u);
        EXPECT_EQ(found[0].id, 7u);
    }
}

// A wire that another thread is inside at each second look.
class OccupiedWire final : public softnic::Wire {
  public:
    explicit OccupiedWire(int looks) noexcept : looks_(looks) {}
    void attach(Descriptor, Origin) noexcept override {}
    int socket() const noexcept override { return -1; }
    Found progress() noexcept override { return looks_-- > 0 ? Found::last : Found::nothing; }
    bool occupied() const noexcept override { return true; }
    void flush() noexcept override {}
    void settle() noexcept override { ++settled; }
    int settled = 0;

  private:
    int looks_;
};

// The last message of a conversation: nobody polls again, and the peer waits for its
// acknowledgement. It comes with the first look, or a receive is posted for it late.
TEST(StreamWaiting, what_the_last_poll_received_is_said_though_the_stream_is_occupied) {
    for (const int looks : {1, 0}) {
        EndOptions options;
        options.device.port = PortKind::shm;
        Pair pair(options);
        auto& shared = static_cast<QueuePair&>(*pair.b.queue_pair).turns().engines().shared();
        auto wire = std::make_unique<OccupiedWire>(looks);
        OccupiedWire& occupied = *wire;
        PeerStream stream(std::move(wire));
        shared.connection.stream.store(&stream);
        const Element from = pair.a.element(0, 8);
        ASSERT_EQ(pair.b.post_receive(0, 64), Errc::ok);
        ASSERT_EQ(pair.a.post_send(std::span(&from, 1)), Errc::ok);
        EXPECT_TRUE(poll_until({&pair.b}, {&pair.seen_b}, [&] { return !pair.seen_b.empty(); }));
        EXPECT_EQ(occupied.settled, 1);
        shared.connection.stream.store(nullptr);
    }
}

// Between the wire's beginning and that of the way to send by it: the peer's welcome, or a request.
TEST(StreamWaiting, what_comes_before_the_queue_pair_is_ready_is_taken) {
    End end;
    auto& turns = static_cast<QueuePair&>(*end.queue_pair).turns();
    PeerStream stream(std::make_unique<OccupiedWire>(3));
    turns.engines().shared().connection.stream.store(&stream);
    EXPECT_TRUE(end.poll().empty());
    turns.execute(QueuePairTurns::Looker::engine_thread);
    EXPECT_EQ(stream.wire().progress(), softnic::Wire::Found::nothing);  // it was looked at
    EXPECT_EQ(end.queue_pair->state(), QueuePairState::reset);
    turns.engines().shared().connection.stream.store(nullptr);
}

// A wire with something to read, inside which a thread was stopped.
class StoppedWire final : public softnic::Wire {
  public:
    explicit StoppedWire(int socket) noexcept : socket_(socket) {}
    void attach(Descriptor, Origin) noexcept override { marks_.attached.store(true); }
    int socket() const noexcept override { return socket_; }
    Found progress() noexcept override { return Found::nothing; }
    bool occupied() const noexcept override { return is_occupied; }
    void flush() noexcept override {}
    std::atomic<bool> is_occupied{true};

  private:
    int socket_;
};

TEST(StreamWaiting, a_poller_that_is_stopped_inside_does_not_keep_the_engine_thread_busy) {
    std::array<int, 2> sockets{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()), 0);
    const Descriptor here(sockets[0]), there(sockets[1]);
    ASSERT_EQ(write(there.get(), "x", 1), 1);
    auto owned = std::make_unique<StoppedWire>(here.get());
    StoppedWire& wire = *owned;
    std::atomic<int> looks{0};
    EventThread thread;
    PeerStream stream(std::move(owned));
    const PeerStream::Driver driver{
        [](void* count) noexcept { ++*static_cast<std::atomic<int>*>(count); }, &looks};
    stream.watch(thread, driver, std::chrono::steady_clock::now() + kPatience);
    const auto looks_at_least = [&](int wanted) {
        const auto begun = std::chrono::steady_clock::now(), deadline = begun + kPatience;
        while (looks < wanted && std::chrono::steady_clock::now() < deadline) usleep(100);
        EXPECT_GE(looks, wanted);
        return std::chrono::steady_clock::now() - begun;
    };
    stream.attach({}, softnic::Wire::Origin::dialled);
    constexpr int kLooks = 40;
    // Most of them are ticks.
    EXPECT_GE(looks_at_least(kLooks), std::chrono::milliseconds(kLooks * EventThread::kTickMs / 2));
    // Once it goes on, the socket wakes the engine thread again.
    wire.is_occupied = false;
    looks_at_least(looks + kLooks);
    stream.unwatch();
}

// rnr_retry and min_rnr_timer, which rdma-core's programs set.
TEST(StreamWaiting, a_message_without_a_receive_fails_after_its_retries) {
    Pair pair(wire_options());
    auto& a = static_cast<QueuePair&>(*pair.a.queue_pair);
    auto& b = static_cast<QueuePair&>(*pair.b.queue_pair);
    a.limits().not_ready_retries = 2;
    b.setup().set_not_ready_for(std::chrono::milliseconds(5));
    const Element from = pair.a.element(0, 8);
    ASSERT_EQ(pair.a.post_send(std::span(&from, 1), 1), Errc::ok);
    ASSERT_EQ(pair.a.post_write(pattern(8), 64, 2), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 0));
    EXPECT_EQ(pair.seen_a[0].status, Errc::rnr_exceeded);
    EXPECT_EQ(pair.seen_a[1].status, Errc::flushed);
    EXPECT_EQ(pair.b.value<std::uint64_t>(64), 0u);
}

}  // namespace
}  // namespace verbatim::softnic::test
