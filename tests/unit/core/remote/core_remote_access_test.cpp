// Memory of the peer that a layer stores into itself: between its messages, and against the end of
// the grant, of the connection and of its lane.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>

#include "core_lent.hpp"

namespace verbatim::test {
namespace {

constexpr std::size_t kBytes = 40000;

Config direct_config() {
    Config config = small_config();
    config.device.strict_doorbells = false;
    config.softnic.port = "shm";
    return config;
}

// What the receiver lends to its sender. One thread drives both.
class Window {
  public:
    explicit Window(const Config& sending = direct_config(), Access access = kAll)
        : pair(sending, sending.softnic.port == "tcp" ? sending : direct_config()),
          there(pair.receiver->receive_arena(), kBytes),
          grant(*pair.receiver, *there, access) {
        tell(1, "lent");  // behind the opening of the window
    }
    ~Window() {
        EXPECT_TRUE(poll_until([&] {
            grant.end();
            return grant.has_ended() || !pair.receiver;
        }));
    }

    std::byte* open() {
        const RemoteExtent& lent = grant.extents()[0];
        return RemoteAccess::open(*pair.sender, lent.address, kBytes, lent.remote_key);
    }
    void close() { RemoteAccess::close(*pair.sender); }
    bool opens() {
        const bool is_open = open() != nullptr;
        close();
        return is_open;
    }
    bool is_all(int value) const {
        return std::all_of(there->begin(), there->end(),
                           [=](std::byte b) { return b == std::byte(value); });
    }
    // From the lender.
    void tell(std::uint8_t channel, const std::string& text) {
        EXPECT_EQ(pair.receiver->try_send(channel, bytes_of(text)), Errc::ok);
        EXPECT_EQ(text_of(next(*pair.sender)), text);
    }
    Message next(Connection& connection) {
        Message message;
        EXPECT_TRUE(poll_until([&] { return connection.try_receive(message) == Errc::ok; }));
        return message;
    }
    template <class Done>
    bool poll_until(Done done) {
        const Deadline deadline = soon();
        bool is_done = false;
        while (!(is_done = done()) && !deadline.passed()) poll();
        return is_done;
    }
    void poll() {
        if (pair.receiver) (void)pair.receiver->progress();
        if (pair.sender) (void)pair.sender->progress();
    }

    ConnectedPair pair;
    Local<std::byte> there;
    Grant grant;
};

TEST(RemoteAccess, stores_come_behind_what_was_sent_before_and_before_what_is_sent_after) {
    Window window;
    for (int round = 1; round <= 20; ++round) {
        const std::string before = "before " + std::to_string(round), after = "after";
        ASSERT_EQ(window.pair.sender->try_batch(1, bytes_of(before)), Errc::ok);
        std::byte* const to = window.open();
        ASSERT_NE(to, nullptr);
        Message message;
        EXPECT_EQ(window.pair.receiver->try_receive(message), Errc::ok) << "no batch stays behind";
        EXPECT_EQ(text_of(message), before);
        std::memset(to, round, kBytes);
        window.close();
        ASSERT_EQ(window.pair.sender->try_send(1, bytes_of(after)), Errc::ok);
        EXPECT_EQ(text_of(window.next(*window.pair.receiver)), after);
        EXPECT_TRUE(window.is_all(round));
    }
}

TEST(RemoteAccess, is_refused_where_writes_are_or_where_there_is_no_way) {
    EXPECT_FALSE(Window(direct_config(), Access::remote_read).opens());
    Config strict = direct_config(), faulty = direct_config(), streaming = direct_config();
    strict.device.strict_doorbells = true;
    faulty.faults = "fail nth=100000";
    streaming.softnic.port = "tcp";
    for (const Config* config : {&strict, &faulty, &streaming}) {
        Window window(*config);
        EXPECT_FALSE(window.opens());
        EXPECT_EQ(window.pair.sender->state(), Errc::ok);
        window.tell(1, "still here");
    }
}

TEST(RemoteAccess, holds_up_the_end_of_the_grant) {
    Window window;
    std::byte* const to = window.open();
    ASSERT_NE(to, nullptr);
    window.grant.end();
    for (int i = 0; i < 200; ++i) {
        (void)window.pair.receiver->progress();
        ASSERT_FALSE(window.grant.has_ended());
    }
    std::memset(to, 1, kBytes);
    window.close();
    EXPECT_TRUE(window.poll_until([&] { return window.grant.has_ended(); }));
    EXPECT_TRUE(window.is_all(1));
    EXPECT_FALSE(window.opens());
    EXPECT_EQ(window.pair.sender->state(), Errc::ok) << "nothing was written by the ended key";
    window.tell(1, "still here");
}

TEST(RemoteAccess, is_closed_by_the_end_of_its_connection) {
    Window window;
    ASSERT_NE(window.open(), nullptr);
    window.pair.sender.reset();
    window.grant.end();
    EXPECT_TRUE(window.poll_until([&] { return window.grant.has_ended(); }));
}

TEST(RemoteAccess, closes_after_the_peers_end_and_opens_no_more) {
    Window window;
    std::byte* const to = window.open();
    ASSERT_NE(to, nullptr);
    auto gone = std::async(std::launch::async, [&] { window.pair.receiver.reset(); });
    const Deadline deadline = soon();
    while (window.pair.sender->progress() == Errc::ok && !deadline.passed())
        std::this_thread::yield();
    EXPECT_NE(gone.wait_for(std::chrono::milliseconds(10)), std::future_status::ready)
        << "the lender waits for the span";
    std::memset(to, 1, kBytes);
    window.close();
    gone.get();
    EXPECT_TRUE(window.poll_until([&] { return window.pair.sender->state() != Errc::ok; }));
    EXPECT_FALSE(window.opens());
    EXPECT_TRUE(window.poll_until([&] {
        (void)window.pair.receiver_context.lane().poll();
        return window.grant.has_ended();
    }));
}

// The grant keeps the connection where it is; afterwards all is as before.
TEST(RemoteAccess, is_closed_by_a_move) {
    Window window;
    ASSERT_NE(window.open(), nullptr);
    const Lane lane = window.pair.sender_context.make_lane();
    std::atomic<bool> stop{false};
    std::thread peer([&] {
        while (!stop.load()) (void)window.pair.receiver->progress();
    });
    EXPECT_EQ(error_code_of([&] { window.pair.sender->move_to(lane); }), Errc::unsupported);
    stop.store(true);
    peer.join();
    window.close();  // without an effect
    EXPECT_TRUE(window.opens());
    window.tell(1, "still here");
}

TEST(RemoteAccess, opens_through_the_queue_pair_of_the_new_lane) {
    Window window;
    EXPECT_TRUE(window.opens());
    window.grant.end();
    ASSERT_TRUE(window.poll_until([&] { return window.grant.has_ended(); }));
    const Lane lane = window.pair.sender_context.make_lane();
    std::atomic<bool> stop{false};
    std::thread peer([&] {
        while (!stop.load()) (void)window.pair.receiver->progress();
    });
    EXPECT_EQ(error_code_of([&] { window.pair.sender->move_to(lane); }), Errc::ok);
    stop.store(true);
    peer.join();
    EXPECT_FALSE(window.opens()) << "the grant has ended";
    window.grant = Grant(*window.pair.receiver, *window.there, kAll);
    window.tell(1, "lent again");
    EXPECT_TRUE(window.opens());
}

}  // namespace
}  // namespace verbatim::test
