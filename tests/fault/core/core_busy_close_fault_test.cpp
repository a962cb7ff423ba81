// A close in the middle of everything: messages, batches, claims, a sender, held messages,
// one-sided writes and grants of one connection are under way. Another connection of its lane goes
// on.
#include <atomic>
#include <deque>
#include <memory>
#include <vector>

#include "core_bystander.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::Bystander;

enum Channel : std::uint8_t { kTell = 1, kSend, kClaim, kSender, kClose, kChannels };
enum class Closer { peer, program, handler };

constexpr std::size_t kWritten = 8192, kLent = 4096;
constexpr int kStepsAtLeast = 400;

Deadline soon() { return Deadline::after(30s); }

// One side of the connection that is closed. Threads: its lane's, but for the sender's loop.
class BusySide {
  public:
    explicit BusySide(Connection made)
        : context_lane_(made.lane()),
          connection_(std::move(made)),
          source_(static_cast<std::byte*>(connection_->arena().allocate(kWritten, 64))),
          arena_(connection_->receive_arena_ptr()),
          target_(static_cast<std::byte*>(arena_->allocate(kWritten + kLent, 4096))) {
        connection_->on(kClose, [this](Message&) { close(); });
        whole_ = lend({target_, kWritten});
        sending_ = std::thread([this, sender = connection_->sender()] { send_elsewhere(sender); });
    }
    ~BusySide() {
        close();
        sending_.join();
        while (!grants_.empty()) drop_grant();
        whole_.end();
        // The memory of peers that are gone comes back once the device has let it go.
        for (const Deadline limit = soon(); owners_ended_ != owners_ && !limit.passed();)
            (void)context_lane_.poll();
        EXPECT_EQ(owners_ended_, owners_);
    }
    BusySide(const BusySide&) = delete;
    BusySide& operator=(const BusySide&) = delete;

    // A little of everything. False: the connection has ended, or was closed.
    bool step() {
        const auto steps = {&BusySide::tell,  &BusySide::send,         &BusySide::claim,
                            &BusySide::write, &BusySide::lend_a_while, &BusySide::receive};
        for (const auto one : steps) {
            if (connection_) (this->*one)();
        }
        if (connection_) (void)connection_->progress();
        ++steps_;
        return connection_ && connection_->state() == Errc::ok;
    }
    bool is_busy() const { return steps_ > kStepsAtLeast && next_[kSender] > 50 && writes_ > 20; }
    bool ask_for_close() { return connection_->try_send(kClose, {}) == Errc::ok; }
    void close() { connection_.reset(); }

    // The other side has closed: nothing of it is missing, and every write has retired.
    void expect_end(std::uint64_t sent) {
        ASSERT_TRUE(connection_);
        EXPECT_TRUE(connection_->peer_closed()) << name(connection_->state());
        EXPECT_EQ(next_[kSend], sent);
        Errc flushed = Errc::would_block;
        for (const Deadline limit = soon(); flushed == Errc::would_block && !limit.passed();
             flushed = connection_->try_flush())
            (void)connection_->progress();
        EXPECT_NE(flushed, Errc::would_block);
        const Errc again = connection_->try_flush();
        EXPECT_EQ(again, flushed);
        connection_.reset();
    }
    std::uint64_t sent() const { return numbers_[kSend]; }

  private:
    static bool is_over(Errc error) { return error != Errc::ok && error != Errc::would_block; }
    static std::span<const std::byte> bytes_of(const std::uint64_t& number) {
        return std::as_bytes(std::span(&number, 1));
    }
    Grant lend(std::span<std::byte> memory) {
        ++owners_;
        const std::shared_ptr<void> owner(memory.data(), [this](void*) { ++owners_ended_; });
        return Grant::begin(*connection_, memory, Access::remote_write, owner);
    }
    void tell() {
        if (told_ || !whole_.is_ready()) return;
        told_ = connection_->try_send(kTell, std::as_bytes(whole_.extents())) == Errc::ok;
    }
    // Of different lengths, so that the ring's end is met in every way.
    void send() {
        std::uint64_t& number = numbers_[kSend];
        const std::vector<std::byte> rest(number * 7 % 120);
        const bool alone = number % 5 == 0;
        const Errc error = alone ? connection_->try_send(kSend, bytes_of(number), rest)
                                 : connection_->try_batch(kSend, bytes_of(number), rest);
        if (error == Errc::ok) ++number;
    }
    // Each stays open for two steps.
    void claim() {
        if (open_ && ++open_for_ == 2) {
            std::memcpy(open_.bytes().data(), &numbers_[kClaim], sizeof(std::uint64_t));
            if (open_.commit(sizeof(std::uint64_t)) == Errc::ok) ++numbers_[kClaim];
        }
        if (!open_ && connection_->try_claim(kClaim, 24, open_) == Errc::ok) open_for_ = 0;
    }
    void write() {
        std::size_t written = 0;
        if (peer_.bytes == 0) return;
        (void)connection_->try_write(source_ + at_, kWritten - at_, peer_.address + at_,
                                     peer_.remote_key, written);
        at_ = (at_ + written) % kWritten;
        if (written != 0) ++writes_;
    }
    void lend_a_while() {
        if (steps_ % 16 != 0) return;
        if (grants_.size() == 3) drop_grant();
        try {
            grants_.push_back(lend({target_ + kWritten, kLent}));
        } catch (const Error&) {  // the connection has ended, and its owner was let go
        }
    }
    void drop_grant() {
        grants_.front().end();
        grants_.pop_front();
    }
    // Some messages are held, while others come. Each step gives one back, not always the first;
    // but that one alone makes room for the peer.
    void receive() {
        if (!held_.empty())
            held_.erase(held_.begin() + (steps_ % 4 == 0 ? std::ssize(held_) / 2 : 0));
        Message message;
        for (int i = 0; i < 16 && held_.size() < 8; ++i) {
            if (!connection_ || connection_->try_receive(message) != Errc::ok) return;
            take(message);
            held_.push_back(std::move(message));
        }
    }
    void take(const Message& message) {
        std::uint64_t number = 0;
        ASSERT_LT(message.channel(), kChannels);
        ASSERT_GE(message.payload().size(), sizeof number);
        if (message.channel() == kTell) {
            std::memcpy(&peer_, message.payload().data(), sizeof peer_);
            return;
        }
        std::memcpy(&number, message.payload().data(), sizeof number);
        EXPECT_EQ(number, next_[message.channel()]++) << "channel " << int(message.channel());
    }
    void send_elsewhere(const Sender& sender) {
        for (std::uint64_t number = 0;;) {
            const Errc error = sender.try_send(kSender, bytes_of(number));
            if (is_over(error)) return;
            if (error == Errc::ok)
                ++number;
            else
                std::this_thread::yield();
        }
    }

    Lane context_lane_;
    std::optional<Connection> connection_;
    std::byte* source_;
    std::shared_ptr<Arena> arena_;
    std::byte* target_;  // of the peer's writes; behind it, what is lent for a while
    Grant whole_;
    std::deque<Grant> grants_;
    std::atomic<int> owners_{0}, owners_ended_{0};
    std::uint64_t numbers_[kChannels]{}, next_[kChannels]{};
    Claim open_;
    int open_for_ = 0, steps_ = 0, writes_ = 0;
    std::deque<Message> held_;
    RemoteExtent peer_;
    std::size_t at_ = 0;
    bool told_ = false;
    std::thread sending_;
};

class BusyClose : public testing::TestWithParam<Closer> {};

// The side without a bystander.
void run_peer(Closer closer, std::uint16_t port, std::atomic<std::uint64_t>& sent,
              std::uint64_t& sent_here) {
    Context context(test::narrow_config());
    BusySide side(context.connect("127.0.0.1:" + std::to_string(port)));
    bool asked = false;
    const Deadline limit = soon();
    while (side.step() && !limit.passed()) {
        if (!side.is_busy()) continue;
        if (closer == Closer::peer) side.close();
        if (closer == Closer::handler && !asked) asked = side.ask_for_close();
    }
    sent_here = side.sent();
    if (closer != Closer::peer) {
        while (sent == ~std::uint64_t{0} && !limit.passed()) std::this_thread::yield();
        side.expect_end(sent);
    }
}

TEST_P(BusyClose, delivers_what_was_accepted_and_leaves_the_lane_to_others) {
    const Closer closer = GetParam();
    Context context(test::narrow_config());
    Bystander bystander(context, test::narrow_config());
    Listener listener = context.listen("127.0.0.1:0");
    std::atomic<std::uint64_t> sent{~std::uint64_t{0}};
    std::uint64_t sent_there = 0;
    std::thread peer([&] { run_peer(closer, listener.port(), sent, sent_there); });
    {
        BusySide side(listener.accept(soon()));
        const Deadline limit = soon();
        for (int i = 0; side.step() && !limit.passed(); ++i) {
            if (i % 8 == 0) bystander.expect_answer();
            if (closer == Closer::program && side.is_busy()) side.close();
        }
        sent = side.sent();
        bystander.expect_answers(100);  // a handler's close goes on meanwhile
        // The peer ends while this lane is polled, as its close may wait for it.
        std::atomic<bool> ended{false};
        std::thread joining([&] {
            peer.join();
            ended = true;
        });
        while (!ended) bystander.expect_answer();
        joining.join();
        if (closer == Closer::peer) side.expect_end(sent_there);
    }
    for (const Deadline limit = soon(); context.lane().connections() != 1 && !limit.passed();)
        bystander.expect_answer();
    EXPECT_EQ(context.lane().connections(), 1u);
    bystander.expect_answers(50);
}

std::string closer_name(const testing::TestParamInfo<Closer>& tested) {
    if (tested.param == Closer::peer) return "peer";
    return tested.param == Closer::program ? "program" : "handler";
}

INSTANTIATE_TEST_SUITE_P(By, BusyClose,
                         testing::Values(Closer::peer, Closer::program, Closer::handler),
                         closer_name);

}  // namespace
}  // namespace verbatim
