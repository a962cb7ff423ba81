// Peers that are killed or stopped after each step of a transfer, as sender and as receiver. What
// has not come whole is never seen; all memory comes back; others go on.
#include <deque>

#include "link/object_link.hpp"
#include "objects_steps.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using steps::Role;
using steps::Stepped;

Deadline soon() { return Deadline::after(30s); }

// The survivor, a peer of it that lives on, and peers that were forked before there are threads.
template <class Story>
class Steps : public testing::Test {
  protected:
    void SetUp() override {
        for (int i = 0; i < 36; ++i) peers_.emplace_back();
        context_.emplace(steps::config());
        listener_.emplace(context_->listen("127.0.0.1:0"));
        other_context_.emplace(steps::config());
        std::thread accepting([this] { bystander_.emplace(listener_->accept(soon())); });
        other_.emplace(other_context_->connect(test::local(listener_->port())));
        accepting.join();
        test::expect_usable(*other_, *bystander_);
        arena_ = bystander_->arena_ptr();
        receive_arena_ = bystander_->receive_arena_ptr();
        budget_ = LayerAccess::shared_state<objects::Budget>(*bystander_);
        for (const Role role : {Role::sends, Role::receives}) {  // makes what a context keeps
            begin(role);
            for (int i = 0; i < kMostSteps && !both_step(); ++i) note_kinds_of_steps();
            end(SIGKILL);
        }
        EXPECT_GT(seen_restarts_, 0u);
        EXPECT_GT(seen_records_, 0u);
        expect_memory_back();
    }
    static constexpr int kMostSteps = 400;

    std::size_t usage() {
        return receive_arena_->usage().allocated_bytes + arena_->usage().allocated_bytes;
    }
    std::uint64_t budget() { return budget_->used(); }
    void begin(Role role) {
        ASSERT_FALSE(peers_.empty());
        ASSERT_TRUE(peers_.front().begin(role, listener_->port(), &steps::step_of<Story>));
        connection_.emplace(listener_->accept(soon()));
        role_ = role;
        if (steps::is_received_from(role)) receiving_.emplace(*connection_);
        if (steps::is_sent_to(role)) sending_.emplace(*connection_, maker_.story);
        if (steps::is_sent_to(role) && !receiving_) next_.emplace(*connection_, maker_.story);
    }
    // A step of each side. True once the peer has nothing left to do.
    bool both_step() {
        const bool is_over = peers_.front().step();
        (void)step();
        return is_over;
    }
    // One on this side; true once that is done. Types that differ belong to the role.
    bool step() try {
        if (graph_) return true;
        const bool is_sent = !sending_ || sending_->step();
        if (receiving_) {
            if (receiving_->step()) graph_.emplace(receiving_->take());
            return graph_.has_value();
        }
        return next_->step() && is_sent;
    } catch (const Error& error) {
        if (error.code() != Errc::type_mismatch) throw;
        EXPECT_TRUE(role_ == Role::refuses || role_ == Role::cancels) << error.what();
        return role_ == Role::refuses;
    }
    void note_kinds_of_steps() {
        for (const auto* open : objects::object_link(*connection_)->incoming().arrivals().open()) {
            seen_restarts_ = std::max(seen_restarts_, open->streamed.restarts);
            seen_records_ = std::max(seen_records_, open->streamed.records);
        }
    }
    // The peer goes. What this side learns of it: nothing, a whole graph, or the loss.
    void end(int signal) {
        peers_.front().end(signal);
        std::optional<Error> error;
        const Deadline deadline = signal == SIGKILL ? soon() : Deadline::after(20ms);
        try {
            while (!deadline.passed() && !step()) connection_->pause(100, deadline);
        } catch (const Error& told) {
            error = told;
        }
        if (signal == SIGKILL && !graph_ && receiving_) {
            EXPECT_TRUE(error) << "the end of the peer was not noticed";
        }
        if (error) {
            EXPECT_EQ(error->code(), Errc::peer_lost) << error->what();
        }
        if (graph_ && (role_ == Role::sends || role_ == Role::forwards)) {
            EXPECT_TRUE(steps::is_whole(**graph_));
        }
        EXPECT_LE(budget(), steps::config().objects.window_budget);
        receiving_.reset(), sending_.reset(), next_.reset(), graph_.reset(), connection_.reset();
        if (signal != SIGKILL) peers_.front().end(SIGKILL);
        peers_.pop_front();
    }
    void expect_memory_back() {
        const bool is_first = allocated_ == 0;
        const Deadline deadline = soon();
        std::size_t now = usage();
        while ((budget() != 0 || (!is_first && now != allocated_)) && !deadline.passed()) {
            context_->lane().poll();
            now = usage();
        }
        EXPECT_EQ(budget(), 0u);
        if (is_first)
            allocated_ = now;
        else
            EXPECT_EQ(now, allocated_);
    }
    // Windows that were lent to the other peer go, too.
    void end_others() {
        other_.reset(), bystander_.reset();
        expect_memory_back();
    }
    // A graph of several segments crosses between the others.
    std::function<bool()> other_transfer() {
        struct Both {
            Both(Connection& from, Connection& to, const Story& story)
                : sending(from, story), receiving(to) {}
            SendOperation<Story> sending;
            ReceiveOperation<Story> receiving;
            bool is_sent = false;
        };
        return [both = std::make_shared<Both>(*other_, *bystander_, maker_.story)] {
            both->is_sent = both->is_sent || both->sending.step();
            return both->receiving.step() && both->is_sent &&
                   steps::is_whole(*both->receiving.take());
        };
    }
    // Until the peer has done so many steps; true if it could do more.
    bool end_after(Role role, int count, int signal) {
        SCOPED_TRACE(testing::Message() << "role " << static_cast<int>(role) << " after " << count
                                        << " steps, signal " << signal);
        begin(role);
        if (this->HasFatalFailure()) return false;
        bool is_over = false;
        for (int i = 0; i < count && !is_over; ++i) is_over = both_step();
        end(signal);
        expect_memory_back();
        return !is_over && !this->HasFailure();
    }
    void end_after_each_step(Role role) {
        for (int count = 0, more = 1; more != 0 && count < kMostSteps; count += more) {
            more = end_after(role, count, SIGKILL) ? 1 + count / 6 : 0;
            if (more != 0 && count % 3 == 1) (void)end_after(role, count, SIGSTOP);
        }
        test::expect_usable(*other_, *bystander_);
    }

    std::deque<Stepped> peers_;
    std::shared_ptr<Arena> arena_, receive_arena_;
    std::shared_ptr<objects::Budget> budget_;
    std::optional<Context> context_, other_context_;
    std::optional<Listener> listener_;
    std::optional<Connection> other_, bystander_, connection_;
    const steps::StoryMaker<Story> maker_;
    Role role_{};
    std::optional<ReceiveOperation<Story>> receiving_;
    std::optional<SendOperation<Story>> sending_, next_;
    std::optional<Received<Story>> graph_;
    std::size_t allocated_ = 0;
    std::uint64_t seen_restarts_ = 0, seen_records_ = 0;
};

using Stories = testing::Types<steps::Story, steps::OpenStory>;
struct StoryNames {
    template <class Story>
    static std::string GetName(int) {
        return std::is_same_v<Story, steps::Story> ? "closed" : "with_classes";
    }
};
TYPED_TEST_SUITE(Steps, Stories, StoryNames);

TYPED_TEST(Steps, of_a_sender_that_goes_show_nothing_of_its_graph) {
    this->end_after_each_step(Role::sends);
}

TYPED_TEST(Steps, of_a_sender_that_cancels_and_goes_show_nothing_of_its_graph) {
    this->end_after_each_step(Role::cancels);
}

TYPED_TEST(Steps, of_a_receiver_that_goes_leave_its_sender_usable) {
    this->end_after_each_step(Role::receives);
}

TYPED_TEST(Steps, of_a_receiver_that_refuses_and_goes_leave_its_sender_usable) {
    this->end_after_each_step(Role::refuses);
}

// The graph goes there and comes back: its first sender is the next receiver.
TYPED_TEST(Steps, of_a_forwarder_that_goes_show_nothing_of_the_graph_it_had) {
    this->end_after_each_step(Role::forwards);
}

// Memory that it was lent, and asked to give back, is less than what others may use.
TYPED_TEST(Steps, of_a_stopped_sender_that_keeps_idle_windows_hold_up_nobody) {
    this->begin(Role::sends);
    for (int i = 0; i < this->kMostSteps && !this->both_step(); ++i) continue;
    this->peers_.front().end(SIGSTOP);
    std::function<bool()> transfer = this->other_transfer();
    for (const Deadline deadline = soon(); !transfer();) ASSERT_FALSE(deadline.passed());
    transfer = nullptr;
    this->end(SIGKILL);
    this->end_others();
}

// It may take what is not kept for the oldest graph, which is one of its own: others wait then,
// until the program closes its connection.
TYPED_TEST(Steps, of_a_stopped_sender_that_hoards_are_bounded_by_the_budget) {
    this->begin(Role::hoards);
    const std::size_t before = this->usage();
    const std::uint64_t most = steps::config().objects.window_budget;
    for (const Deadline deadline = soon(); this->budget() < most / 2; (void)this->both_step())
        ASSERT_FALSE(deadline.passed());
    for (int i = 0; i < 40; ++i) (void)this->both_step();
    EXPECT_LE(this->budget(), most);
    EXPECT_LE(this->usage(), before + most);
    this->peers_.front().end(SIGSTOP);
    std::function<bool()> transfer = this->other_transfer();
    for (int i = 0; i < 100; ++i) ASSERT_FALSE(transfer());
    this->receiving_.reset(), this->connection_.reset();  // the program gives it up
    for (const Deadline deadline = soon(); !transfer();) ASSERT_FALSE(deadline.passed());
    transfer = nullptr;
    this->peers_.front().end(SIGKILL);
    this->end_others();
}

}  // namespace
}  // namespace verbatim
