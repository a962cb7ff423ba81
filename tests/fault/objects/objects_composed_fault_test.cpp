// Receivers that are killed or stopped at each step under composed messages, and senders of such
// messages. A message outlives its receiver whole; nothing of a sender that goes is seen; all
// memory comes back. Also a sender that lives, and does not send what it has composed.
#include <cstdlib>
#include <deque>

#include "link/object_link.hpp"
#include "objects_steps.hpp"
#include "sanitized.hpp"

namespace verbatim::steps {

struct Ledger {
    std::pmr::vector<std::uint64_t> numbers;
    std::pmr::vector<std::pmr::string> texts;
    Ledger* self = nullptr;
};

}  // namespace verbatim::steps

VERBATIM_COMPOSED(verbatim::steps::Ledger);

namespace verbatim::steps {

inline constexpr std::size_t kNumbers = 60'000;  // in several segments
inline constexpr std::size_t kTexts = 100;
inline constexpr std::string_view kText = "a text that is too long to lie in its string";

bool is_whole(const Ledger& got) {
    return got.numbers.size() == kNumbers && got.numbers.back() == kNumbers - 1 &&
           got.texts.size() == kTexts && got.texts.back() == kText && got.self == &got;
}

void fill_numbers(ComposedMessage<Ledger>& message) {
    message->numbers.reserve(kNumbers);
    for (std::size_t i = 0; i < kNumbers; ++i) message->numbers.push_back(i);
}
void fill_texts(ComposedMessage<Ledger>& message) {
    for (std::size_t i = 0; i < kTexts; ++i) message->texts.emplace_back(kText);
}
void fill(ComposedMessage<Ledger>& message) {
    message->self = &*message;
    fill_numbers(message);
    fill_texts(message);
}

// Composed messages on one connection, one after the other. A step begins a message, fills a part
// of it, or is one of its sending.
class Composer {
  public:
    static constexpr int kMessages = 3, kParts = 3, kTries = 6;

    explicit Composer(Connection& connection) : connection_(connection) {}
    // True once all messages are sent.
    bool step() {
        if (sent_ == kMessages) return true;
        if (!sending_ && part_ < kParts) return compose_part(), false;
        if (!sending_) sending_.emplace(connection_, *message_);
        if (!steps::step(*sending_, connection_)) return false;
        composed_ += sending_->report().composed ? 1 : 0;
        sending_.reset();
        part_ = 0;
        return ++sent_ == kMessages;
    }
    // The last message, with all that belongs into it. Nothing is sent.
    const ComposedMessage<Ledger>& finish() {
        sending_.reset();
        while (!is_whole_) compose_part();
        return *message_;
    }
    int composed() const noexcept { return composed_; }
    int placed() const noexcept { return placed_; }

  private:
    void compose_part() {
        if (part_ == 0 && !begin()) return;
        if (part_ == 1) fill_numbers(*message_);
        if (part_ == 2) fill_texts(*message_);
        is_whole_ = ++part_ == kParts;
    }
    // False: its room at the receiver may come by the next step.
    bool begin() {
        is_whole_ = false;
        message_.emplace(compose<Ledger>(connection_));
        (*message_)->self = &**message_;
        const bool is_placed = message_->place().address() != 0;
        placed_ += is_placed ? 1 : 0;
        return is_placed || ++tries_ % kTries == 0;
    }

    Connection& connection_;
    std::optional<ComposedMessage<Ledger>> message_;
    std::optional<ComposedSendOperation<Ledger>> sending_;
    bool is_whole_ = false;
    int part_ = 0, tries_ = 0, sent_ = 0, composed_ = 0, placed_ = 0;
};

Step composed_step_of(Role role, Connection& connection) {
    if (role == Role::receives) return receiving<Ledger>(connection, Composer::kMessages);
    return [composer = std::make_shared<Composer>(connection)] { return composer->step(); };
}

}  // namespace verbatim::steps

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using steps::Composer;
using steps::Ledger;
using steps::Role;

Deadline soon() { return Deadline::after(30s); }

// The survivor, a peer of it that lives on, and peers that were forked before there are threads.
class ComposedSteps : public testing::Test {
  protected:
    void SetUp() override {
        steps::connect_timeout = 2s;
        for (int i = 0; i < 36; ++i) peers_.emplace_back();
        context_.emplace(steps::config());
        listener_.emplace(context_->listen("127.0.0.1:0"));
        other_context_.emplace(steps::config());
        std::thread accepting([this] { bystander_.emplace(listener_->accept(soon())); });
        other_.emplace(other_context_->connect(test::local(listener_->port())));
        accepting.join();
        arena_ = bystander_->arena_ptr();
        receive_arena_ = bystander_->receive_arena_ptr();
        budget_ = LayerAccess::shared_state<objects::Budget>(*bystander_);
        for (const Role role : {Role::sends, Role::receives}) {  // makes what a context keeps
            begin(role);
            for (int i = 0; i < kMostSteps && !both_step(); ++i) continue;
            if (composer_) {
                for (const Deadline deadline = soon(); !step();) ASSERT_FALSE(deadline.passed());
                EXPECT_EQ(composer_->composed(), Composer::kMessages);
                placed_ = composer_->placed();
            }
            end(SIGKILL);
        }
        if (!test::kSanitized) {
            EXPECT_GT(placed_, 0) << "no message was composed in the receiver's slots";
        }
        expect_memory_back();
    }
    static constexpr int kMostSteps = 400;

    void begin(Role role) {
        ASSERT_FALSE(peers_.empty());
        ASSERT_TRUE(peers_.front().begin(role, listener_->port(), &steps::composed_step_of));
        connection_.emplace(listener_->accept(soon()));
        if (role == Role::sends)
            receiving_.emplace(*connection_);
        else
            composer_.emplace(*connection_);
    }
    // A step of each side. True once the peer has nothing left to do.
    bool both_step() {
        const bool is_over = peers_.front().step();
        (void)step();
        return is_over;
    }
    // One on this side; true once that is done. Each message that has come is whole.
    bool step() {
        if (composer_) return composer_->step();
        if (received_ == Composer::kMessages) return true;
        if (!receiving_->step()) return false;
        EXPECT_TRUE(steps::is_whole(*receiving_->take()));
        receiving_.reset();
        return ++received_ == Composer::kMessages || (receiving_.emplace(*connection_), false);
    }
    // The peer goes. This side learns of the loss, unless all was done before.
    void end(int signal) {
        peers_.front().end(signal);
        std::optional<Error> error;
        bool is_done = false;
        const Deadline deadline = signal == SIGKILL ? soon() : Deadline::after(20ms);
        try {
            while (!deadline.passed() && !is_done) {
                is_done = step();
                if (!is_done) connection_->pause(100, Deadline::after(2ms));
            }
        } catch (const Error& told) {
            error = told;
        }
        if (signal == SIGKILL) {
            EXPECT_TRUE(error || is_done) << "the end of the peer was not noticed";
        }
        if (error) {
            EXPECT_EQ(error->code(), Errc::peer_lost) << error->what();
        }
        if (composer_) pass_on(composer_->finish());
        composer_.reset(), receiving_.reset(), connection_.reset();
        received_ = 0;
        if (signal != SIGKILL) peers_.front().end(SIGKILL);
        peers_.pop_front();
    }
    // The message goes to another receiver, as it lies.
    void pass_on(const ComposedMessage<Ledger>& message) {
        EXPECT_TRUE(steps::is_whole(message.root()));
        ComposedSendOperation<Ledger> sending(*bystander_, message);
        ReceiveOperation<Ledger> receiving(*other_);
        bool is_sent = false, is_received = false;
        for (const Deadline deadline = soon(); !is_sent || !is_received;) {
            is_sent = is_sent || sending.step();
            is_received = is_received || receiving.step();
            ASSERT_FALSE(deadline.passed());
        }
        EXPECT_TRUE(sending.report().composed);
        EXPECT_TRUE(steps::is_whole(*receiving.take()));
    }
    std::size_t usage() {
        return receive_arena_->usage().allocated_bytes + arena_->usage().allocated_bytes;
    }
    void expect_memory_back() {
        const bool is_first = allocated_ == 0;
        const Deadline deadline = soon();
        std::size_t now = usage();
        while ((budget_->used() != 0 || (!is_first && now != allocated_)) && !deadline.passed()) {
            context_->lane().poll();
            now = usage();
        }
        EXPECT_EQ(budget_->used(), 0u);
        if (is_first)
            allocated_ = now;
        else
            EXPECT_EQ(now, allocated_);
    }
    // Until the peer has done so many steps; true if it could do more.
    bool end_after(Role role, int count, int signal) {
        SCOPED_TRACE(testing::Message() << "role " << static_cast<int>(role) << " after " << count
                                        << " steps, signal " << signal);
        begin(role);
        if (HasFatalFailure()) return false;
        bool is_over = false;
        for (int i = 0; i < count && !is_over; ++i) is_over = both_step();
        end(signal);
        expect_memory_back();
        return !is_over && !HasFailure();
    }
    // Each of the first ones. By a wire there are many more, which differ less.
    void end_after_each_step(Role role) {
        const int part = std::getenv("VERBATIM_TEST_PORT") == nullptr ? 12 : 3;
        for (int count = 0, more = 1; more != 0 && count < kMostSteps; count += more) {
            more = end_after(role, count, SIGKILL) ? 1 + count / part : 0;
            if (more != 0 && count % 5 == 1) (void)end_after(role, count, SIGSTOP);
        }
        test::expect_usable(*other_, *bystander_);
    }

    std::deque<steps::Stepped> peers_;
    std::shared_ptr<Arena> arena_, receive_arena_;
    std::shared_ptr<objects::Budget> budget_;
    std::optional<Context> context_, other_context_;
    std::optional<Listener> listener_;
    std::optional<Connection> other_, bystander_, connection_;
    std::optional<Composer> composer_;
    std::optional<ReceiveOperation<Ledger>> receiving_;
    std::size_t allocated_ = 0;
    int received_ = 0, placed_ = 0;
};

TEST_F(ComposedSteps, of_a_receiver_that_goes_leave_the_message_whole_for_another) {
    end_after_each_step(Role::receives);
}

TEST_F(ComposedSteps, of_a_sender_that_goes_show_nothing_of_its_message) {
    end_after_each_step(Role::sends);
}

// ---- a composer that lives on ----

using Texts = std::vector<std::string>;
constexpr std::uint64_t kHeld = std::uint64_t{5} << 20;  // of 8 MiB

// Has a message in the receiver's slots, and sends it only when it is told to. Until then it looks
// at the connection, no more.
int compose_and_wait(softnic::test::Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 2;
    Context context(test::small_config());
    Connection connection = context.connect(test::local(port));
    std::optional<ComposedMessage<Ledger>> message;
    for (const Deadline deadline = soon(); !message || message->place().address() == 0;) {
        if (deadline.passed()) return 3;
        message.emplace(compose<Ledger>(connection, {.expected_bytes = kHeld}));
        (void)readable(connection);
    }
    steps::fill(*message);
    if (!wire.signal()) return 4;
    while (!wire.readable(1)) (void)readable(connection);
    if (!wire.wait()) return 5;
    const bool is_composed = send(connection, *message, {soon()}).composed;
    return is_composed && wire.wait() ? 0 : 6;
}

// The other connection's graph needs memory that only the composer can give back.
TEST(PlacedMessage, that_is_never_sent_yields_its_slots_to_another_connection) {
    softnic::test::Child composer(&compose_and_wait);
    Config config = test::small_config();
    config.receive_arena.max_bytes = std::size_t{8} << 20;
    config.objects.window_wait = 30s;
    Context receiving(config), sending(test::small_config());
    Listener listener = receiving.listen("127.0.0.1:0");
    ASSERT_TRUE(composer.wire().put(listener.port()));
    Connection held = listener.accept(soon());
    for (const Deadline deadline = soon(); !composer.wire().readable(1);) {
        ASSERT_FALSE(deadline.passed());
        (void)readable(held);
    }
    ASSERT_TRUE(composer.wire().wait()) << "no message was composed in the receiver's slots";
    EXPECT_GE(held.receive_arena().usage().allocated_bytes, kHeld);

    std::thread peer([&] {
        Connection other = sending.connect(test::local(listener.port()));
        EXPECT_NO_THROW(send(other, Texts(60, std::string(110'000, 't')), {soon()}));
    });
    Connection other = listener.accept(soon());
    EXPECT_NO_THROW(EXPECT_EQ(receive<Texts>(other, {soon()})->size(), 60u));
    peer.join();
    // The message is whole, and finds room when it is sent after all.
    ASSERT_TRUE(composer.wire().signal());
    EXPECT_TRUE(steps::is_whole(*receive<Ledger>(held, {soon()})));
    ASSERT_TRUE(composer.wire().signal());
    EXPECT_EQ(composer.reap(), 0);
}

}  // namespace
}  // namespace verbatim
