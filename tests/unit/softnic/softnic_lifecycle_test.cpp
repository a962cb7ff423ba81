// The life of a queue pair, several times over: reset, ready, error, drained, reset, ready again.
// Whatever was accepted retires once, and nothing of one life reaches into the next.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include <verbatim/mlx5/completion_wait.hpp>
#include <verbatim/mlx5/prepared.hpp>

#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

// What an end posted, and what came back of it.
struct Account {
    std::uint64_t next = 1;
    std::map<std::uint64_t, Errc> retired;

    void take(const std::vector<Completion>& found) {
        for (const Completion& completion : found)
            EXPECT_TRUE(retired.emplace(completion.id, completion.status).second)
                << completion.id << " retired twice";
    }
};

class Lives : public testing::TestWithParam<bool> {  // who fails
  protected:
    static EndOptions options() {
        EndOptions options;
        options.access = kAllAccess | Access::window_bind;
        options.channel = true;
        return options;
    }

    // One request of each kind. Those that find no receive stay outstanding.
    void post_all(End& end, Account& account) {
        const Element element = end.element(0, 8);
        for (const Opcode opcode :
             {Opcode::write, Opcode::read, Opcode::fetch_add, Opcode::masked_fetch_add, Opcode::nop,
              Opcode::send, Opcode::write_immediate, Opcode::send_immediate, Opcode::write}) {
            WorkRequest request = end.request(opcode, 64);
            if (opcode != Opcode::nop) request.elements = std::span(&element, 1);
            request.id = account.next++;
            ASSERT_EQ(end.send->post(request), Errc::ok);
        }
        for (int i = 0; i < 6; ++i)
            ASSERT_EQ(end.post_receive(1000, 100, account.next++), Errc::ok);
    }
    void start_over() {
        for (End* end : {&a, &b}) {
            end->queue_pair->reset();
            end->completions->discard(end->send->number());
            end->send->reset();
            end->receive->reset();
            EXPECT_EQ(end->queue_pair->state(), QueuePairState::reset);
        }
        a.connect(b.address());
        b.connect(a.address());
    }

    Pair pair{options()};
    End& a = pair.a;
    End& b = pair.b;
};

TEST_P(Lives, everything_retires_once_and_the_next_life_is_like_the_first) {
    for (int life = 0; life < 20; ++life) {
        ASSERT_EQ(a.queue_pair->state(), QueuePairState::ready);
        Account of_a, of_b;
        ASSERT_NO_FATAL_FAILURE(post_all(a, of_a));
        if (life % 2 == 0) {
            ASSERT_NO_FATAL_FAILURE(post_all(b, of_b));
        }
        if (life % 3 == 0) of_a.take(a.poll());
        (GetParam() ? a : b).queue_pair->fail();
        if (life % 2 != 0) {
            ASSERT_NO_FATAL_FAILURE(post_all(b, of_b)) << "in the error state, or just before it";
        }
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while ((of_a.retired.size() != of_a.next - 1 || of_b.retired.size() != of_b.next - 1) &&
               std::chrono::steady_clock::now() < deadline) {
            of_a.take(a.poll());
            of_b.take(b.poll());
            // Receives of the end that did not fail are only given back once it fails in turn.
            if (a.send->outstanding() == 0 && b.send->outstanding() == 0)
                for (End* end : {&a, &b}) end->queue_pair->fail();
        }
        EXPECT_EQ(of_a.retired.size(), of_a.next - 1) << life;
        EXPECT_EQ(of_b.retired.size(), of_b.next - 1) << life;
        EXPECT_TRUE(a.poll().empty());
        EXPECT_TRUE(b.poll().empty());
        EXPECT_EQ(a.completions->strays() + b.completions->strays(), 0u);
        ASSERT_NO_FATAL_FAILURE(start_over());
    }
    ASSERT_EQ(b.post_receive(0, 8, 1), Errc::ok);
    const Element from = a.element(0, 8);
    ASSERT_EQ(a.post_send(std::span(&from, 1), 2), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(pair.seen_b[0].status, Errc::ok);
}

TEST_P(Lives, prepared_operations_end_with_their_life_and_say_so) {
    const auto payload = pattern(24);
    WorkRequest write = a.request(Opcode::write);
    write.inline_payload = payload;
    const Element element = a.element(0, 8);
    WorkRequest add = a.request(Opcode::fetch_add);
    add.elements = std::span(&element, 1);
    const auto* const bytes = static_cast<const std::byte*>(payload.data());
    for (int life = 0; life < 3; ++life) {
        write.remote_key = add.remote_key = a.peer.key;
        mlx5::Prepared<Opcode::write, mlx5::Inline<24>> one(*a.send, write);
        mlx5::Prepared<Opcode::fetch_add, mlx5::Addend> atomic(*a.send, add);
        const std::uint64_t to = write.remote_address, addend = 1;
        const auto nth = [&](std::uint32_t) { return mlx5::Listed{to, bytes}; };
        ASSERT_EQ(one.post(1, to, bytes), Errc::ok);
        ASSERT_EQ(atomic.post(2, to, addend), Errc::ok);
        ASSERT_EQ(one.post_list(3, 2, nth), Errc::ok);
        EXPECT_EQ(a.poll().size(), 3u);
        (GetParam() ? a : b).queue_pair->fail();
        // In the error state they are posted, and flushed, as all others.
        EXPECT_TRUE(one.valid());
        ASSERT_EQ(one.post(5, to, bytes), Errc::ok);
        ASSERT_EQ(atomic.post(6, to, addend), Errc::ok);
        std::vector<Completion> seen;
        ASSERT_TRUE(poll_until({&a}, {&seen}, [&] { return seen.size() == 2; }));
        EXPECT_NE(seen[0].status, Errc::ok);
        EXPECT_EQ(seen[1].status, Errc::flushed);
        ASSERT_NO_FATAL_FAILURE(start_over());
        EXPECT_FALSE(one.valid());
        EXPECT_EQ(one.post(7, to, bytes), Errc::invalid_prepared);
        EXPECT_EQ(atomic.post(8, to, addend), Errc::invalid_prepared);
        EXPECT_EQ(one.post_list(9, 2, nth), Errc::invalid_prepared);
        EXPECT_TRUE(a.poll().empty());
    }
}

// A thread that sleeps while its queue pair ends, and another time in the next life.
TEST_P(Lives, sleepers_hear_of_the_end_in_every_life) {
    std::vector<Completion> found(8);
    for (int life = 0; life < 5; ++life) {
        ASSERT_EQ(a.post_receive(0, 8, 1), Errc::ok);
        EXPECT_EQ(
            mlx5::wait_and_poll(*a.completions, *a.channel, found, std::chrono::milliseconds(1)),
            0u);
        const Element from = b.element(0, 8);
        ASSERT_EQ(b.post_send(std::span(&from, 1)), Errc::ok);
        ASSERT_EQ(mlx5::wait_and_poll(*a.completions, *a.channel, found, kPatience), 1u);
        EXPECT_EQ(found[0].status, Errc::ok);
        ASSERT_EQ(a.post_receive(0, 8, 2), Errc::ok);
        EXPECT_EQ(
            mlx5::wait_and_poll(*a.completions, *a.channel, found, std::chrono::milliseconds(1)),
            0u);
        if (GetParam())
            a.queue_pair->fail();
        else
            b.queue_pair->reset();
        ASSERT_EQ(mlx5::wait_and_poll(*a.completions, *a.channel, found, kPatience), 1u);
        EXPECT_EQ(found[0].status, Errc::flushed);
        ASSERT_NO_FATAL_FAILURE(start_over());
    }
}

INSTANTIATE_TEST_SUITE_P(SoftNic, Lives, testing::Values(true, false),
                         [](const auto& a_fails) { return a_fails.param ? "own" : "peers"; });

}  // namespace
}  // namespace verbatim::softnic::test
