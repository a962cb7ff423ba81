// Peers that are stopped, never read, or have no receives for what is announced to them. Their own
// connection waits or ends; another one of the same lane goes on.
#include <csignal>

#include "core_bystander.hpp"
#include "core_hand_made_peer.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using softnic::test::Child;
using softnic::test::Wire;
using test::Bystander;
using test::HandMadePeer;
using test::local;

Deadline soon() { return Deadline::after(30s); }

std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}
std::uint64_t number_of(const Message& message) {
    std::uint64_t number = 0;
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}

// Lends memory and takes numbers in their order until the other side closes. Exit code 0: it did,
// and the last number was in that memory before the last message came.
int take_numbers(Wire& wire) {
    std::uint16_t port = 0;
    if (!wire.get(port)) return 90;
    Context context(test::narrow_config());
    Connection connection = context.connect(local(port));
    auto* const lent = static_cast<std::byte*>(connection.receive_arena().allocate(65536, 4096));
    const Grant grant(connection, {lent, 65536}, Access::remote_write);
    connection.send_message(1, std::as_bytes(grant.extents()), {}, soon());
    if (!wire.signal()) return 92;
    std::uint64_t expected = 0, written = 0;
    try {
        for (;; ++expected) {
            if (number_of(connection.receive_message(soon())) != expected) return 93;
            std::memcpy(&written, lent + 65528, sizeof written);
        }
    } catch (const Error&) {
        if (!connection.peer_closed()) return 94;
    }
    return written + 1 == expected ? 0 : 95;
}

class PeerStops : public testing::Test {
  protected:
    void SetUp() override {
        context_.emplace(test::narrow_config());
        Listener listener = context_->listen("127.0.0.1:0");
        ASSERT_TRUE(child_.wire().put(listener.port()));
        victim_.emplace(listener.accept(soon()));
        bystander_.emplace(*context_, test::narrow_config());
        const Message message = victim_->receive_message(soon());
        std::memcpy(&extent_, message.payload().data(), sizeof extent_);
        ASSERT_TRUE(child_.wire().wait());
        source_ = static_cast<std::byte*>(victim_->arena().allocate(65536, 4096));
        // The first write into a segment asks its owner for it.
        if (asks_before()) {
            EXPECT_TRUE(write_all());
        }
        while (victim_->try_flush() == Errc::would_block) (void)victim_->progress();
        ASSERT_TRUE(child_.stop());
    }
    virtual bool asks_before() const { return true; }
    // False: there is no room.
    bool send_number() {
        const Errc error = victim_->try_send(1, bytes_of(sent_));
        EXPECT_TRUE(error == Errc::ok || error == Errc::would_block) << name(error);
        sent_ += error == Errc::ok ? 1u : 0u;
        return error == Errc::ok;
    }
    // Long enough for a stream's socket to be full at last.
    bool write_all() {
        std::size_t written = 0;
        const Errc error =
            victim_->try_write(source_, 65528, extent_.address, extent_.remote_key, written);
        EXPECT_TRUE(error == Errc::ok || error == Errc::would_block) << name(error);
        return error == Errc::ok;
    }
    // Until neither messages nor writes find room, beside a connection that is busy.
    void fill() {
        bool has_room = true;
        for (int i = 0; i < 2000 && has_room; ++i) {
            has_room = write_all();
            has_room |= send_number();
            if (i % 20 == 0) bystander_->expect_answer();
        }
    }

    Child child_{take_numbers};  // forked before this process has threads
    std::optional<Context> context_;
    std::optional<Connection> victim_;
    std::optional<Bystander> bystander_;
    RemoteExtent extent_;
    std::byte* source_ = nullptr;
    std::uint64_t sent_ = 0;
};

TEST_F(PeerStops, with_everything_full_while_another_connection_goes_on) {
    fill();
    const bool is_long = std::getenv("VERBATIM_LONG") != nullptr;
    const Deadline stopped = Deadline::after(is_long ? 10s : 300ms);
    while (!stopped.passed()) {
        bystander_->expect_answers(10);
        (void)send_number();
        (void)victim_->lane().wait(Deadline::after(1ms));
        ASSERT_EQ(victim_->state(), Errc::ok);
    }
    child_.kill(SIGCONT);
    const Deadline deadline = soon();
    for (const std::uint64_t until = sent_ + 500; sent_ < until && !deadline.passed();) {
        if (!send_number()) (void)victim_->lane().wait(deadline);
        if (sent_ % 50 == 0) bystander_->expect_answer();
    }
    // A write, and the message behind it.
    std::memcpy(source_, &sent_, sizeof sent_);
    std::size_t written = 0;
    while (victim_->try_write(source_, 8, extent_.address + 65528, extent_.remote_key, written) ==
           Errc::would_block)
        (void)victim_->lane().wait(deadline);
    while (!send_number()) (void)victim_->lane().wait(deadline);
    victim_.reset();
    int code = -1;
    EXPECT_TRUE(child_.reap_in_time(code));
    EXPECT_EQ(code, 0);
    bystander_->expect_answers(20);
}

TEST_F(PeerStops, and_dies_while_everything_is_full) {
    fill();
    child_.kill(SIGKILL);
    EXPECT_EQ(child_.reap(), -SIGKILL);
    const Deadline deadline = soon();
    while (victim_->progress() == Errc::ok && !deadline.passed()) bystander_->expect_answer();
    EXPECT_EQ(victim_->state(), Errc::peer_lost);
    victim_.reset();
    bystander_->expect_answers(20);
}

class PeerStopsEarly : public PeerStops {
    bool asks_before() const override { return false; }
};

// The question for the segment's file waits, and nothing waits for it in place.
TEST_F(PeerStopsEarly, and_the_first_write_into_its_memory_holds_up_no_other_connection) {
    ASSERT_TRUE(write_all());
    bystander_->expect_answers(10);
    EXPECT_EQ(victim_->try_flush(), Errc::would_block);
    EXPECT_EQ(victim_->state(), Errc::ok);
    child_.kill(SIGCONT);
    const Deadline deadline = soon();
    Errc flushed = Errc::would_block;
    while ((flushed = victim_->try_flush()) == Errc::would_block && !deadline.passed())
        (void)victim_->lane().wait(deadline);
    EXPECT_EQ(flushed, Errc::ok);
    EXPECT_TRUE(send_number());
    victim_.reset();
    int code = -1;
    EXPECT_TRUE(child_.reap_in_time(code));
    EXPECT_EQ(code, 0);
}

TEST(PeerNeverReads, holds_up_its_own_connection_alone) {
    test::ConnectedPair pair(test::narrow_config(), test::narrow_config());
    Bystander bystander(pair.sender_context, test::narrow_config());
    std::uint64_t sent = 0;
    Sender sender = pair.sender->sender();
    for (int i = 0; i < 2000; ++i) {
        if (pair.sender->try_send(1, bytes_of(sent)) == Errc::ok) ++sent;
        (void)sender.try_send(2, bytes_of(sent));
        if (i % 10 == 0) bystander.expect_answer();
    }
    EXPECT_EQ(pair.sender->try_send(1, bytes_of(sent)), Errc::would_block);
    EXPECT_EQ(sender.try_send(2, bytes_of(sent)), Errc::would_block);
    // It takes one, and goes.
    EXPECT_EQ(pair.receiver->receive_message(soon()).payload().size(), sizeof sent);
    pair.receiver.reset();
    const Deadline deadline = soon();
    while (pair.sender->progress() == Errc::ok && !deadline.passed()) bystander.expect_answer();
    EXPECT_TRUE(pair.sender->peer_closed());
    EXPECT_FALSE(pair.sender->peer_took_all());
    EXPECT_NE(sender.try_send(2, bytes_of(sent)), Errc::ok);
    pair.sender.reset();
    bystander.expect_answers(20);
}

// Each generation asks for an immediate, for which the peer has no receive: requests are sent again
// and again, until the queue pair fails.
TEST(PeerWithoutReceives, ends_its_own_connection_alone) {
    Config config = test::narrow_config();
    config.lane.mode = LaneMode::event;
    HandMadePeer peer(config);
    Bystander bystander(peer.context(), test::narrow_config());
    Errc result = Errc::ok;
    const Deadline deadline = soon();
    for (std::uint64_t generation = 1; result <= Errc::would_block && !deadline.passed();
         ++generation) {
        peer.write_word(peer.theirs().armed_address, peer.theirs().words_key, generation);
        // The next generation comes when this one was seen.
        while ((result = peer.connection().try_send(1, {})) == Errc::would_block &&
               peer.connection().progress() == Errc::ok && !deadline.passed())
            bystander.expect_answer();
        bystander.expect_answer();
        if (const Errc state = peer.connection().progress(); state != Errc::ok) result = state;
    }
    while (peer.connection().progress() == Errc::ok && !deadline.passed())
        bystander.expect_answer();
    EXPECT_EQ(peer.connection().state(), Errc::rnr_exceeded);
    bystander.expect_answers(50);
}

}  // namespace
}  // namespace verbatim
