// Programs that fork, die, or end without tidying up.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../uverbs/place.hpp"
#include "../uverbs/verbs_pair.hpp"
#include "child_process.hpp"

namespace verbatim::interop {
namespace {

struct Processes : testing::Test {
    Processes() { EXPECT_EQ(pipe(to_child) | pipe(to_parent), 0); }
    ~Processes() override {
        for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) close(fd);
    }
    // The child's part: a queue pair connected with the parent's.
    std::unique_ptr<Side> meet_as_child(ibv_context* context) {
        auto side = std::make_unique<Side>(context);
        tell(to_parent[1], place_of(*side));
        connect(side->pair.get(), take<Place>(to_child[0]).number);
        tell(to_parent[1], 'c');
        return side;
    }
    Place meet(Side& side) {
        const auto peer = take<Place>(to_parent[0]);
        tell(to_child[1], place_of(side));
        connect(side.pair.get(), peer.number);
        take<char>(to_parent[0]);
        return peer;
    }

    int to_child[2], to_parent[2];
};

TEST_F(Processes, memory_of_another_process_is_written_and_read) {
    Child child([&] {
        const Context context = open_device();
        const auto side = meet_as_child(context.get());
        side->fill(0, 70000, 3);
        side->receive(200000, 64);
        tell(to_parent[1], 'r');
        if (side->poll().status != IBV_WC_SUCCESS) return 2;
        // Written before the send.
        Side wanted(context.get());
        wanted.fill(0, 70000, 9);
        return std::memcmp(side->memory.data() + 100000, wanted.memory.data(), 70000) == 0 ? 0 : 3;
    });
    const Context context = open_device();
    Side one(context.get());
    const Place peer = meet(one);
    take<char>(to_parent[0]);
    one.fill(0, 70000, 9);
    one.request(IBV_WR_RDMA_READ, 300000, 70000)
        .to(reinterpret_cast<void*>(peer.address), peer.key)
        .post(one.pair.get(), 1);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    one.request(IBV_WR_RDMA_WRITE, 0, 70000)
        .to(reinterpret_cast<void*>(peer.address + 100000), peer.key)
        .post(one.pair.get(), 2);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    Side wanted(context.get());
    wanted.fill(0, 70000, 3);
    EXPECT_EQ(std::memcmp(one.memory.data() + 300000, wanted.memory.data(), 70000), 0);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 3);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, atomics_on_memory_of_another_process_run_there) {
    constexpr int kTimes = 1000;
    Child child([&] {
        const Context context = open_device();
        const auto side = meet_as_child(context.get());
        side->word(64) = 5;
        tell(to_parent[1], 'r');
        // Its own, in between.
        for (int i = 0; i < kTimes; ++i) {
            __atomic_fetch_add(&side->word(64), 1, __ATOMIC_RELAXED);
            ibv_wc none;
            ibv_poll_cq(side->completions.get(), 1, &none);
        }
        take<char>(to_child[0]);
        return side->word(64) == 5 + 2 * kTimes && side->word(72) == 99 ? 0 : 2;
    });
    const Context context = open_device();
    Side one(context.get());
    const Place peer = meet(one);
    take<char>(to_parent[0]);
    auto* const there = reinterpret_cast<std::byte*>(peer.address);
    // More than may be on their way at once.
    for (int done = 0, posted = 0; done < kTimes; ++done) {
        for (; posted < kTimes && posted - done < 24; ++posted)
            one.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 8 * std::size_t(posted % 24), 8)
                .atomic(there + 64, peer.key, 1)
                .post(one.pair.get(), std::uint64_t(posted));
        const ibv_wc completion = one.poll();
        ASSERT_EQ(completion.status, IBV_WC_SUCCESS);
        ASSERT_EQ(completion.wr_id, std::uint64_t(done));
        ASSERT_GE(one.word(8 * std::size_t(done % 24)), 5u + unsigned(done));
    }
    one.request(IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8)
        .atomic(there + 72, peer.key, 0, 99)
        .post(one.pair.get());
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(one.word(0), 0u);
    tell(to_child[1], 'e');
    EXPECT_EQ(child.wait(), 0);
    one.request(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8)
        .atomic(there, peer.key ^ 0x100, 1)
        .post(one.pair.get());
    EXPECT_NE(one.poll().status, IBV_WC_SUCCESS);
}

TEST_F(Processes, requests_to_a_killed_process_fail) {
    Child child([&] {
        const Context context = open_device();
        const auto side = meet_as_child(context.get());
        pause();
        return 0;
    });
    const Context context = open_device();
    Side one(context.get());
    const Place peer = meet(one);
    one.request(IBV_WR_RDMA_WRITE, 0, 64)
        .to(reinterpret_cast<void*>(peer.address), peer.key)
        .post(one.pair.get(), 1);
    EXPECT_EQ(one.poll().status, IBV_WC_SUCCESS);
    // This one waits for a receive that never comes.
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 2);
    one.request(IBV_WR_SEND, 0, 64).post(one.pair.get(), 3);
    child.end();
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    EXPECT_EQ(one.poll().status, IBV_WC_RETRY_EXC_ERR);
    EXPECT_EQ(one.poll().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(Processes, one_that_ends_without_destroying_anything_ends) {
    Child child([&] {
        static_cast<void>(meet_as_child(open_device().release()).release());
        return Child::kExit;
    });
    const Context context = open_device();
    Side one(context.get());
    meet(one);
    EXPECT_EQ(child.wait(), 0);
}

TEST_F(Processes, after_a_fork_the_parent_goes_on_and_the_child_opens_its_own) {
    const Context context = open_device();
    Side one(context.get()), other(context.get());
    connect(one.pair.get(), other.pair->qp_num);
    connect(other.pair.get(), one.pair->qp_num);
    const auto exchange = [](Side& from, Side& to) {
        to.receive(0, 64);
        from.request(IBV_WR_SEND, 0, 64).post(from.pair.get());
        return to.poll().status == IBV_WC_SUCCESS && from.poll().status == IBV_WC_SUCCESS;
    };
    EXPECT_TRUE(exchange(one, other));
    Child child([&] {
        const Context own = open_device();
        const auto side = meet_as_child(own.get());
        side->receive(0, 64);
        tell(to_parent[1], 'r');
        if (side->poll().status != IBV_WC_SUCCESS) return 2;
        // What it inherited is dead, and says so.
        errno = 0;
        if (ibv_alloc_pd(context.get()) != nullptr) return 3;
        return Child::kExit;
    });
    EXPECT_TRUE(exchange(one, other));
    Side third(context.get());
    meet(third);
    take<char>(to_parent[0]);
    third.request(IBV_WR_SEND, 0, 64).post(third.pair.get());
    EXPECT_EQ(third.poll().status, IBV_WC_SUCCESS);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(exchange(other, one));
}

}  // namespace
}  // namespace verbatim::interop
