// Asynchronous operations on pollers: threads of the library drive them, and nothing else does.
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<int>;

constexpr int kGraphs = 60;

template <class Condition>
bool wait_until(Condition condition) {
    const Deadline deadline = Deadline::after(60s);
    while (!condition() && !deadline.passed()) std::this_thread::yield();
    return condition();
}

Config on_poller(LaneMode mode) {
    Config config = test::small_config();
    config.pollers.push_back({.mode = mode});
    return config;
}

// Some take windows: their sender waits for its peer in the midst.
Numbers graph_of(int i) {
    return Numbers(i % 10 == 7 ? 400'000 : static_cast<std::size_t>(i) + 1, i);
}

// Two contexts with a poller each, which has one end of a connection. What lies here belongs to
// those threads.
struct OnPollers {
    explicit OnPollers(LaneMode mode)
        : sender_context(on_poller(mode)), receiver_context(on_poller(mode)) {
        listener.serve(receiver_context.pollers(), [this](Connection& made) { receiver = &made; });
        sender_context.connect(test::local(listener.port()), *sender_context.pollers().front(),
                               [this](Connection& made) { sender = &made; });
        EXPECT_TRUE(wait_until([this] { return sender != nullptr && receiver != nullptr; }));
    }
    Lane sending() const { return sender_context.pollers().front()->lane(); }
    Lane receiving() const { return receiver_context.pollers().front()->lane(); }

    Context sender_context, receiver_context;
    Listener listener = receiver_context.listen("127.0.0.1:0");
    std::atomic<Connection*> sender{nullptr}, receiver{nullptr};
};

class AsyncOnPollers : public testing::TestWithParam<LaneMode> {
  protected:
    struct Taken {
        AsyncOnPollers* test;
        void operator()(Receiving<Numbers>& one) const {
            EXPECT_EQ(one.error(), nullptr);
            if (one.error() == nullptr) {
                EXPECT_EQ(*one.take(), graph_of(test->received_));
            }
            ++test->received_;
        }
    };
    struct Sent {
        AsyncOnPollers* test;
        void operator()(Sending<Numbers>& one) const {
            EXPECT_EQ(one.error(), nullptr);
            ++test->sent_;
        }
    };
    AsyncOnPollers() {
        for (int i = 0; i < kGraphs; ++i) graphs_.push_back(graph_of(i));
    }
    void SetUp() override { ends_.emplace(GetParam()); }
    // Handles end in the threads that drive them.
    void TearDown() override {
        ends_->sending().call([this] { sending_.clear(); });
        ends_->receiving().call([this] { receiving_.clear(); });
        ends_.reset();
    }
    void begin_receives() {
        ends_->receiving().call([this] {
            for (int i = 0; i < kGraphs; ++i)
                receiving_.emplace_back(*ends_->receiver, ReceiveOptions{}, Taken{this});
        });
    }

    std::vector<Numbers> graphs_;
    std::optional<OnPollers> ends_;
    std::deque<WhenReceived<Numbers, Taken>> receiving_;
    std::deque<WhenSent<Numbers, Sent>> sending_;
    std::atomic<int> received_{0}, sent_{0};
};

TEST_P(AsyncOnPollers, callbacks_are_told_on_both_sides) {
    begin_receives();
    ends_->sending().call([this] {
        for (const Numbers& graph : graphs_)
            sending_.emplace_back(*ends_->sender, graph, SendOptions{.until = Until::delivered},
                                  Sent{this});
    });
    EXPECT_TRUE(wait_until([this] { return received_ == kGraphs && sent_ == kGraphs; }))
        << received_ << " received, " << sent_ << " sent";
}

TEST_P(AsyncOnPollers, a_task_waits_while_its_poller_goes_on_with_other_operations) {
    begin_receives();
    ends_->sending().call([this] {
        for (int i = 0; i + 1 < kGraphs; ++i)
            sending_.emplace_back(*ends_->sender, graphs_[static_cast<std::size_t>(i)],
                                  SendOptions{}, Sent{this});
        Sending<Numbers> last(*ends_->sender, graphs_.back(), {.until = Until::delivered});
        last.wait();
        EXPECT_TRUE(last.delivered());
        EXPECT_EQ(sent_, kGraphs - 1) << "they went before it";
    });
    EXPECT_TRUE(wait_until([this] { return received_ == kGraphs; })) << received_;
}

INSTANTIATE_TEST_SUITE_P(Modes, AsyncOnPollers,
                         testing::Values(LaneMode::adaptive, LaneMode::event), [](const auto& of) {
                             return of.param == LaneMode::event ? "asleep" : "adaptive";
                         });

}  // namespace
}  // namespace verbatim
