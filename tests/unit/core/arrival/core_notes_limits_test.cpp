// Limits of a lane with notes (docs/arrival.md, "The receiver: notes"): places among the hot ones,
// lines of notes, and connections that end or move meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <verbatim/core/poller.hpp>

#include "connection/connection_impl.hpp"
#include "core_hand_made_peer.hpp"
#include "pair/connected_pair.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using State = ArrivalReceiver::State;
Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

Config config_of(std::size_t hot) {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.hot = static_cast<std::uint32_t>(hot);
    return config;
}

struct Crowd {
    Crowd(std::size_t count, std::size_t hot) : calling(config_of(hot)), serving(config_of(hot)) {
        Listener listener = serving.listen("127.0.0.1:0");
        for (std::size_t i = 0; i < count; ++i) {
            std::thread accepting([&] { accepted.push_back(listener.accept(soon())); });
            called.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
            accepting.join();
            accepted.back().on(1, [this](Message&) { ++received; });
        }
    }
    Lane::Impl& lane() { return *serving.lane().impl(); }
    std::vector<LaneMember*> members() {
        std::vector<LaneMember*> all;
        for (QueueUser* user : lane().queue().all_users())
            if (user != nullptr && user->owner() != nullptr)
                all.push_back(static_cast<LaneMember*>(user->owner()));
        return all;
    }
    std::size_t count(State state) {
        std::size_t n = 0;
        for (LaneMember* member : members()) n += member->arrival().state() == state;
        return n;
    }
    void send_all() {
        for (Connection& one : called) one.send_message(1, {}, {}, soon());
    }
    // Until all but `hot` are noted.
    void settle(std::size_t hot) {
        for (int round = 0; round < 4; ++round) {
            send_all();
            for (int i = 0; i < 2000; ++i) serving.lane().poll(), calling.lane().poll();
        }
        ASSERT_EQ(count(State::noted), called.size() - hot);
    }
    Context calling, serving;
    std::vector<Connection> called, accepted;
    std::uint64_t received = 0;
};

// docs/arrival.md: a noted one that had 32 notes is made hot if fewer than 16 are hot.
TEST(ManyNoted, no_more_than_hot_ones_become_hot_when_all_are_busy) {
    constexpr std::size_t kHot = 4, kMany = 60;
    Crowd crowd(kMany, kHot);
    crowd.settle(kHot);
    std::size_t most = 0;
    for (int round = 0; round < 500; ++round) {
        crowd.send_all();
        crowd.serving.lane().poll();
        most = std::max(most, crowd.count(State::hot));
        crowd.calling.lane().poll();
    }
    EXPECT_LE(most, kHot + 1);
}

// A poll looks at 128 lines. A line that is in use has room for all eight of its connections.
TEST(ManyNoted, fill_the_lines_that_are_in_use) {
    if (test::kSanitized) GTEST_SKIP() << "over a thousand connections take too long";
    constexpr std::size_t kBusy = 150, kLines = 128;
    Crowd crowd(kBusy * 8, 1);
    const auto send_to_each = [&](std::size_t step, std::size_t from, std::size_t count) {
        for (int round = 0; round < 3; ++round) {
            for (std::size_t i = 0; i < count; ++i)
                crowd.called[from + i * step].send_message(1, {}, {}, soon());
            for (int i = 0; i < 3000; ++i) crowd.serving.lane().poll(), crowd.calling.lane().poll();
        }
    };
    send_to_each(8, 0, kBusy);
    EXPECT_LE(crowd.count(State::noted), kLines + 1);
    const std::size_t before = crowd.count(State::noted);
    EXPECT_GE(before, kLines);
    send_to_each(1, 1, 7);
    EXPECT_GE(crowd.count(State::noted), before + 6);
}

// A hot connection that has ended, and that the program still has, keeps its place for good: a busy
// one stays noted though nobody is hot.
TEST(ManyNoted, an_ended_connection_keeps_no_place_among_the_hot_ones) {
    Crowd crowd(3, 1);
    Lane lane = crowd.serving.lane(), peers = crowd.calling.lane();
    crowd.settle(1);
    const std::vector<LaneMember*> members = crowd.members();
    std::size_t hot = 0;
    while (members[hot]->arrival().state() != State::hot) ++hot;
    crowd.called.erase(crowd.called.begin() + static_cast<std::ptrdiff_t>(hot));
    const Deadline limit = soon();
    while (!members[hot]->has_ended() && !limit.passed()) lane.poll(), peers.poll();
    for (int i = 0; i < 70'000; ++i) lane.poll();
    ASSERT_EQ(crowd.count(State::noted), 2u);
    std::size_t became_hot = 0;
    for (int i = 0; i < 2000; ++i) {
        crowd.called[0].send_message(1, {}, {}, soon());
        for (int k = 0; k < 4; ++k) lane.poll(), peers.poll();
        became_hot += crowd.count(State::noted) == 1;
    }
    EXPECT_NE(became_hot, 0u);
}

// A peer that asks to move and says no more: its connection's path is paused, it is the oldest hot
// one, and nobody else is armed any more.
TEST(ManyNoted, a_peer_that_begins_to_move_keeps_no_others_hot) {
    test::HandMadePeer peer(config_of(1));
    Context calling(config_of(1));
    std::vector<Connection> called, accepted;
    Listener listener = peer.context().listen("127.0.0.1:0");
    std::uint64_t received = 0;
    for (int i = 0; i < 12; ++i) {
        std::thread accepting([&] { accepted.push_back(listener.accept(soon())); });
        called.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
        accepted.back().on(1, [&](Message&) { ++received; });
    }
    Lane lane = peer.context().lane();
    const auto drive = [&](int polls) {
        for (int i = 0; i < polls; ++i) lane.poll(), calling.lane().poll();
    };
    const auto wake_all = [&] {
        for (int i = 0; i < 200; ++i) (void)lane.impl()->prepare_to_sleep(), calling.lane().poll();
        for (auto& one : called) one.send_message(1, {}, {}, soon());
        drive(3000);
        return lane.impl()->polled().size();
    };
    EXPECT_LE(wake_all(), 2u);
    ASSERT_EQ(peer.ring().try_send({.channel = 3}), Errc::ok);
    drive(3000);
    peer.ask_to_move();
    drive(3000);
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    EXPECT_LE(wake_all(), 3u) << "the lane polls all that were woken until the move expires";
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    peer.reset_socket();
}

// The peer dies when the mover has left its old lane: `ready` cannot be said.
TEST(ManyNoted, a_move_to_an_empty_lane_whose_peer_dies_at_the_end) {
    Config config = test::small_config();
    config.pollers.push_back({.mode = LaneMode::busy});
    test::HandMadePeer peer(config);
    std::atomic<bool> may_go_on{false};
    Lane target = peer.context().poller("poller 0").lane();
    std::thread moving([&] {
        const Error error = test::error_of([&] { peer.connection().move_to(target); });
        EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
    });
    const auto said = peer.hear_frame();  // the move: room was made on the new lane
    target.submit([&]() noexcept {
        while (!may_go_on) std::this_thread::yield();
    });
    const Hello theirs = parse_hello(said, "test");
    peer.answer_move(theirs);
    // Until the mover has left its old lane, where its queue pair ends.
    for (const Deadline limit = soon(); peer.progress() == Errc::ok && !limit.passed();)
        (void)peer.ring().try_send({.channel = 3});
    peer.reset_socket();
    may_go_on = true;
    moving.join();
    target.call([&] { peer.end_connection(); });
}

}  // namespace
}  // namespace verbatim
