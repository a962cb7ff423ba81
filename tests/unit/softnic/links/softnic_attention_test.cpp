// Work for queue pairs that no round looks at: it is found whatever happens meanwhile.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "links/link.hpp"
#include "queue_pair.hpp"
#include "sanitized.hpp"
#include "softnic_end.hpp"

namespace verbatim::softnic::test {
namespace {

using std::chrono::steady_clock;
constexpr int kPatienceMs = 20000;

QueuePair& engine_of(const End& end) { return static_cast<QueuePair&>(*end.queue_pair); }

// Polls until no round looks at them any more.
bool calm(std::initializer_list<End*> ends) {
    const auto deadline = steady_clock::now() + kPatience;
    const auto hot = [](End* end) { return engine_of(*end).turns().attention().hot(); };
    while (std::ranges::any_of(ends, hot)) {
        for (End* const end : ends)
            if (!end->poll().empty()) return false;
        if (steady_clock::now() > deadline) return false;
    }
    return true;
}

// In a forked child; reaped at the end.
class Child {
  public:
    template <class Work>
    explicit Child(Work work) : number_(fork()) {
        if (number_ != 0) return;
        work();
        _exit(0);
    }
    ~Child() {
        kill(number_, SIGKILL);
        waitpid(number_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    void wait() const { waitid(P_PID, static_cast<id_t>(number_), nullptr, WEXITED | WNOWAIT); }

  private:
    pid_t number_;
};

struct Cold : testing::Test {
    void SetUp() override {
        for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(pair.b.post_receive(0, 100, i), Errc::ok);
        ASSERT_TRUE(calm({&pair.a, &pair.b}));
    }
    void send() {
        const mlx5::Element element = pair.a.element(0, 8);
        ASSERT_EQ(pair.a.post_send(std::span(&element, 1)), Errc::ok);
        ++sent;
        ASSERT_TRUE(pair.poll_for(sent, sent)) << "message " << sent;
        ASSERT_TRUE(calm({&pair.a, &pair.b}));
    }
    Pair pair;
    std::size_t sent = 0;
};

TEST_F(Cold, a_childs_poll_changes_nothing_for_its_parent) {
    const Child child([this] { pair.b.poll(), pair.b.poll(); });
    child.wait();
    send();
}

TEST_F(Cold, a_childs_polls_take_no_marks_of_its_parent) {
    const Child child([this] {
        for (;;) pair.b.poll();
    });
    for (int i = 0; i < 8; ++i) send();
}

// The peer remembers for which sleep it has rung.
TEST(Armed, by_a_child_a_queue_wakes_its_parent_no_less) {
    EndOptions options;
    options.channel = true;
    Pair pair(options);
    const auto send = [&] {
        const mlx5::Element element = pair.a.element(0, 8);
        return pair.a.post_send(std::span(&element, 1));
    };
    ASSERT_EQ(pair.b.post_receive(0, 100), Errc::ok);
    const Child child([&] { static_cast<void>(pair.b.completions->arm()); });
    child.wait();
    ASSERT_EQ(send(), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 1));
    ASSERT_EQ(pair.b.post_receive(0, 100), Errc::ok);
    ASSERT_EQ(pair.b.completions->arm(), Errc::ok);
    ASSERT_EQ(send(), Errc::ok);
    pollfd entry{pair.b.channel->file(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, kPatienceMs), 1);
}

// A thread that is about to sleep walks once: what was set before must be seen, whatever others of
// the same column come and go.
TEST(HotSet, a_round_that_begins_after_a_bit_was_set_comes_to_it) {
    HotSet set;
    const Pair pair;
    const HotSet::Place ours = set.add(engine_of(pair.a)), other = set.add(engine_of(pair.b));
    std::atomic<bool> over{false};
    std::thread neighbour([&] {
        while (!over.load()) set.set(other), set.clear(other);
    });
    const int times = verbatim::test::kSanitized ? 20000 : 2000000;
    int missed = 0;
    for (int i = 0; i < times; ++i) {
        set.set(ours);
        bool came = false;
        set.for_each_hot([&](QueuePair& found) { came |= &found == &engine_of(pair.a); });
        missed += came ? 0 : 1;
        set.clear(ours);
        if (i % 2 == 0) set.for_each_hot([](QueuePair&) {});
    }
    over.store(true);
    neighbour.join();
    EXPECT_EQ(missed, 0) << "of " << times;
}

// As completion queues do it that are resized.
TEST(Standstill, of_the_engines_leaves_no_request_of_a_cold_queue_pair_behind) {
    EndOptions options;
    options.device.strict_doorbells = false;
    Pair pair(options);
    QueuePair& engine = engine_of(pair.a);
    std::atomic<bool> over{false};
    std::thread other([&] {
        for (int turn = 0; !over.load(); ++turn) {
            engine.turns().engines().stop();
            std::this_thread::yield();
            if (!engine.turns().engines().go_on()) engine.turns().catch_up();
            for (int i = 0; i < (turn % 16 == 0 ? 2000 : 1); ++i)
                static_cast<CompletionQueue&>(*pair.a.completion_queue).progress();
        }
    });
    const int times = verbatim::test::kSanitized ? 50 : 500;
    const auto deadline = steady_clock::now() + kPatience;
    int posted = 0;
    while (posted < times && steady_clock::now() < deadline) {
        if (engine.turns().attention().hot() || pair.a.post_write(pattern(8), 0) != Errc::ok) {
            std::this_thread::yield();
            continue;
        }
        ++posted;
        const auto until = steady_clock::now() + kPatience;
        while (engine.turns().engines().requester().unexecuted() && steady_clock::now() < until)
            std::this_thread::yield();
        if (engine.turns().engines().requester().unexecuted()) {
            ADD_FAILURE() << "request " << posted << " is not executed by polls";
            break;
        }
        pair.a.poll();
    }
    EXPECT_GE(posted, 1);
    over.store(true);
    other.join();
}

// Its peer has asked for the ring, and does not tell of its end: it never had the way back.
TEST(HalfConnected, the_end_of_the_peer_flushes_receives) {
    End a;
    auto b = std::make_unique<End>();
    a.connect(b->address());
    ASSERT_EQ(a.post_receive(0, 100), Errc::ok);
    {
        const QueuePairAddress to = a.queue_pair->address(), from = b->queue_pair->address();
        const auto deadline = steady_clock::now() + kPatience;
        const auto link = Link::open(to, {from.nonce, true, {kPatience, kPatience}}, deadline);
        const ChannelSender ring(link->open_channel(from.number, to.number, deadline));
    }
    for (int i = 0; i < 5000; ++i) ASSERT_TRUE(a.poll().empty());
    b.reset();
    const auto deadline = steady_clock::now() + kPatience;
    std::vector<mlx5::Completion> found;
    while (found.empty() && steady_clock::now() < deadline) found = a.poll();
    ASSERT_EQ(found.size(), 1u);
    EXPECT_NE(found[0].status, Errc::ok);
}

TEST(Reset, beside_a_peer_that_connects_leaves_nobody_at_a_ring_that_went) {
    End a, b;
    std::atomic<bool> over{false};
    std::atomic<int> connected{0};
    std::thread other([&] {
        while (!over.load()) {
            try {
                b.queue_pair->connect(a.queue_pair->address(), 200);
                ++connected;
            } catch (const Error&) {  // it is just being reset
            }
            b.queue_pair->reset();
        }
    });
    const int wanted = verbatim::test::kSanitized ? 50 : 300;
    const auto deadline = steady_clock::now() + kPatience;
    for (int i = 0; connected.load() < wanted && steady_clock::now() < deadline; ++i) {
        a.queue_pair->reset();
        if (i % 4 == 0) a.poll();
    }
    over.store(true);
    other.join();
    EXPECT_GE(connected.load(), 1);
}

}  // namespace
}  // namespace verbatim::softnic::test
