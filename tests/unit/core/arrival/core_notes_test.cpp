// Notes (docs/arrival.md, "The receiver: notes"): their words, and connections that a lane looks at
// because of them. Cooling looks at all of them again, after 2^20 polls: messages must be found
// long before.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "connection/connection_impl.hpp"
#include "pair/connected_pair.hpp"

namespace verbatim {
namespace {

Deadline soon() { return Deadline::after(std::chrono::seconds(60)); }

// One connection of a lane is hot.
Config config_of_notes() {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    config.lane.hot = 1;
    return config;
}

// Connections between two contexts, and what has come of each.
class Noted {
  public:
    explicit Noted(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) add();
    }
    void add() {
        Listener listener = serving.listen("127.0.0.1:0");
        std::thread accepting([&] { accepted.emplace_back(listener.accept(soon())); });
        called.emplace_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
        received.push_back(0);
        accepted.back()->on(1, [this, i = received.size() - 1](Message&) { ++received[i]; });
    }
    void remove(std::size_t i) {
        called[i].reset();
        accepted[i].reset();
    }
    // True: it is found soon by `lane`.
    bool passes(std::size_t i, Lane lane) {
        const std::uint64_t before = received[i];
        called[i]->send_message(1, {}, {}, soon());
        for (int polls = 0; received[i] == before && polls < kSoon; ++polls) poll(lane);
        return received[i] == before + 1;
    }
    bool all_pass(Lane lane) {
        for (std::size_t i = 0; i < called.size(); ++i)
            if (called[i] && !passes(i, lane)) return false;
        return true;
    }
    // So that all but one are noted.
    bool settle(Lane lane) {
        for (int round = 0; round < 3; ++round) {
            if (!all_pass(lane)) return false;
            for (int polls = 0; polls < 1000; ++polls) poll(lane);
        }
        return true;
    }
    void poll(Lane lane) { calling.lane().poll(), lane.poll(); }

    static constexpr int kSoon = 100'000;
    Context calling{config_of_notes()}, serving{config_of_notes()};
    std::vector<std::optional<Connection>> called, accepted;
    std::vector<std::uint64_t> received;
};

struct Pool {
    Config config = config_of_notes();
    std::unique_ptr<Device> device = open_configured_device(config);
    PostedLines lines{*device, config.receive_arena};
    std::shared_ptr<NotePool> notes = std::make_shared<NotePool>(lines);
};

TEST(Notes, lie_together_and_are_used_again_from_the_lowest) {
    Pool pool;
    std::vector<std::unique_ptr<NotePool::Note>> notes;
    for (std::size_t i = 0; i < NotePage::kNotes + 10; ++i) {
        notes.push_back(std::make_unique<NotePool::Note>(pool.notes));
        EXPECT_EQ(notes[i]->place(), i % NotePage::kNotes);
        EXPECT_EQ(notes[i]->page_number(), i / NotePage::kNotes);
    }
    for (const std::size_t i : {400u, 7u, 100u}) notes[i].reset();
    for (const std::size_t i : {7u, 100u, 400u})
        EXPECT_EQ((notes[i] = std::make_unique<NotePool::Note>(pool.notes))->place(), i);
}

TEST(Notes, begin_at_0_whatever_the_word_had_before) {
    Pool pool;
    std::optional<NotePool::Note> note(std::in_place, pool.notes);
    const std::uint64_t address = note->address();
    *reinterpret_cast<std::uint64_t*>(address) = 1;
    note.reset();
    note.emplace(pool.notes);
    ASSERT_EQ(note->address(), address);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(address), 0u);
}

TEST(Notes, have_a_key_each_that_covers_nothing_else) {
    Pool pool;
    const NotePool::Note one(pool.notes), two(pool.notes);
    EXPECT_EQ(two.address(), one.address() + sizeof(std::uint64_t));
    EXPECT_NE(one.remote_key(), two.remote_key());
}

TEST(NotedConnections, are_found_in_few_polls) {
    Noted many(20);
    for (int round = 0; round < 50; ++round) ASSERT_TRUE(many.all_pass(many.serving.lane()));
}

TEST(NotedConnections, may_take_the_place_of_one_that_was_closed) {
    Noted many(4);
    for (int round = 0; round < 8; ++round) {
        ASSERT_TRUE(many.settle(many.serving.lane())) << round;
        many.remove(many.called.size() - 1 - static_cast<std::size_t>(round % 2));
        many.add();
        ASSERT_TRUE(many.settle(many.serving.lane())) << round;
    }
}

// Its peer is driven by a thread meanwhile.
void move(Connection& mover, const Lane& to, Lane of_peer) {
    std::atomic<bool> is_over{false};
    std::thread driving([&] {
        while (!is_over) of_peer.poll();
    });
    mover.move_to(to);
    is_over = true;
    driving.join();
}

TEST(NotedConnections, are_found_after_a_move_of_their_own) {
    Noted many(6);
    Lane lane = many.serving.lane();
    for (int round = 0; round < 4; ++round) {
        ASSERT_TRUE(many.settle(lane)) << round;
        const Lane next = round % 2 == 0 ? many.serving.make_lane() : many.serving.lane();
        for (auto& connection : many.accepted) move(*connection, next, many.calling.lane());
        ASSERT_TRUE(many.settle(lane = next)) << round;
    }
}

TEST(NotedConnections, are_found_after_a_move_of_their_peers) {
    Noted many(6);
    const Lane next = many.calling.make_lane();
    ASSERT_TRUE(many.settle(many.serving.lane()));
    for (auto& connection : many.called) move(*connection, next, many.serving.lane());
    ASSERT_TRUE(many.settle(many.serving.lane()));
}

// Of several that were woken at once, one is armed with each poll: a lane that tries to sleep then
// finds one that is being noted.
TEST(NotedConnections, are_found_by_a_lane_that_tried_to_sleep_while_they_were_being_noted) {
    Noted many(6);
    Lane lane = many.serving.lane();
    for (std::uint64_t round = 1; round <= 20; ++round) {
        for (auto& connection : many.called) connection->send_message(1, {}, {}, soon());
        const std::vector<std::uint64_t> all(many.called.size(), round);
        for (int polls = 0; many.received != all && polls < Noted::kSoon; ++polls) many.poll(lane);
        ASSERT_EQ(many.received, all);
        const Deadline limit = soon();
        while (!lane.prepare_to_sleep() && !limit.passed()) many.poll(lane), many.poll(lane);
        ASSERT_FALSE(limit.passed());
    }
}

}  // namespace
}  // namespace verbatim
