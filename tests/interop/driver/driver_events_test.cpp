// Sleeping until a completion comes: on every backend.
#include <poll.h>

#include <thread>

#include <verbatim/mlx5/completion_wait.hpp>

#include "backend.hpp"

namespace verbatim::test {
namespace {

using mlx5::Element;
using mlx5::Notify;
using mlx5::Opcode;
using mlx5::WorkRequest;

class DriverEvents : public DriverTest {
  protected:
    DriverEvents() : DriverTest(options(/*channel=*/true)) {}

    static bool readable(const End& end, int timeout_ms) {
        pollfd entry{end.channel->file(), POLLIN, 0};
        return ::poll(&entry, 1, timeout_ms) == 1;
    }
    Errc send(bool solicited) {
        const Element from = a.element(0, 100);
        WorkRequest message = a.request(Opcode::send);
        message.elements = std::span(&from, 1);
        message.solicited = solicited;
        return a.send->post(message);
    }
    // Arms, and makes sure that nothing came before.
    void arm(Notify notify) {
        ASSERT_EQ(b.completions->arm(notify), Errc::ok);
        ASSERT_TRUE(b.poll().empty());
    }
    void take_event() {
        ASSERT_TRUE(readable(b, 20000)) << "no event came";
        ASSERT_EQ(b.channel->take_event(), b.completion_queue.get());
        b.completions->count_event();
    }
};

TEST_P(DriverEvents, an_armed_queue_raises_one_event_each_time) {
    EXPECT_EQ(b.channel->take_event(), nullptr);
    for (std::uint64_t id = 0; id < 5; ++id) {
        ASSERT_EQ(b.post_receive(0, 100, id), Errc::ok);
        ASSERT_NO_FATAL_FAILURE(arm(Notify::any));
        ASSERT_EQ(send(false), Errc::ok);
        ASSERT_NO_FATAL_FAILURE(take_event());
        EXPECT_EQ(wait_one(b).id, id);
        EXPECT_EQ(wait_one(a).status, Errc::ok);
    }
    EXPECT_EQ(b.channel->take_event(), nullptr);
}

TEST_P(DriverEvents, a_queue_armed_for_solicited_messages_sleeps_through_others) {
    for (std::uint64_t id = 0; id < 2; ++id) ASSERT_EQ(b.post_receive(0, 100, id), Errc::ok);
    ASSERT_NO_FATAL_FAILURE(arm(Notify::solicited));
    ASSERT_EQ(send(false), Errc::ok);
    EXPECT_FALSE(readable(b, 100));
    ASSERT_EQ(send(true), Errc::ok);
    ASSERT_NO_FATAL_FAILURE(take_event());
    EXPECT_EQ(wait(b, 2).size(), 2u);
}

TEST_P(DriverEvents, waiting_takes_whatever_comes_meanwhile) {
    constexpr std::uint64_t kMessages = 50;
    for (std::uint64_t id = 0; id < kMessages; ++id) {
        ASSERT_EQ(b.post_receive(0, 100, id), Errc::ok);
        std::thread sender([&] { EXPECT_EQ(send(false), Errc::ok); });
        std::array<mlx5::Completion, 4> found;
        const std::size_t count = mlx5::wait_and_poll(*b.completions, *b.channel, found,
                                                      std::chrono::milliseconds(20000));
        sender.join();
        ASSERT_EQ(count, 1u) << id;
        EXPECT_EQ(found[0].id, id);
        EXPECT_EQ(wait_one(a).status, Errc::ok);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, DriverEvents, testing::ValuesIn(backends()), name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DriverEvents);

}  // namespace
}  // namespace verbatim::test
