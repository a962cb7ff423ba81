// Marks on a work board, and the attention that follows them: all interleavings of a model,
// threads, and two processes.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "rings/work_board.hpp"
#include "sanitized.hpp"

namespace verbatim::softnic {
namespace {

// What one step too few, or in the wrong order, looks like: the model has to find each.
enum class Fault : std::uint8_t {
    none,
    leaf_taken_first,    // take() empties the leaf before the summary
    summary_first,       // mark() sets the summary's bit before the leaf's
    no_last_look,        // cool() does not look after it has said cold
    listens_after_look,  // cool() asks for marks after its last look
};

// Two queue pairs whose slots share a leaf; a peer that sends to each; two walkers of different
// lists. One step is one access to a shared word.
struct Model {
    enum : std::uint8_t { kCold, kChanging, kHot };
    struct Peer {
        std::uint8_t step = 0, left = verbatim::test::kSanitized ? 1 : 2;
    };
    struct Walker {
        std::uint8_t step = 0, bits = 0, pair = 0;
    };
    std::array<std::uint8_t, 2> made{}, seen{}, listens{}, state{kHot, kHot};
    std::uint8_t leaf = 0, summary = 0;
    std::array<Peer, 2> peers{};
    std::array<Walker, 2> walkers{};

    bool operator==(const Model& other) const {
        return std::memcmp(this, &other, sizeof *this) == 0;
    }
    // Nobody does anything any more, unless somebody heats or marks.
    bool at_rest() const {
        for (const Peer& peer : peers)
            if (peer.left != 0) return false;
        for (const Walker& walker : walkers)
            if (walker.step != 0) return false;
        return summary == 0;
    }
    bool lost() const {
        for (std::size_t i = 0; i < 2; ++i)
            if (state[i] != kHot && seen[i] != made[i]) return true;
        return false;
    }
};
static_assert(std::has_unique_object_representations_v<Model>);
struct Hash {
    std::size_t operator()(const Model& model) const {
        return std::hash<std::string_view>()({reinterpret_cast<const char*>(&model), sizeof model});
    }
};

std::uint8_t rest_of(std::uint8_t bits) { return std::uint8_t(bits & (bits - 1)); }

void step_peer(Model& m, std::size_t which, Fault fault) {
    Model::Peer& peer = m.peers[which];
    const auto bit = static_cast<std::uint8_t>(1 << which);
    const auto end = [&] { peer.step = 0, --peer.left; };
    const bool reversed = fault == Fault::summary_first;
    std::uint8_t& first = reversed ? m.summary : m.leaf;
    std::uint8_t& second = reversed ? m.leaf : m.summary;
    const std::uint8_t first_bit = reversed ? 1 : bit, second_bit = reversed ? bit : 1;
    switch (peer.step++) {
        case 0:
            ++m.made[which];
            break;
        case 1:
            if (m.listens[which] == 0) end();
            break;
        case 2:
            if ((first & first_bit) != 0) peer.step = 4;
            break;
        case 3:
            first = std::uint8_t(first | first_bit);
            break;
        case 4:
            if ((second & second_bit) != 0) end();
            break;
        case 5:
            second = std::uint8_t(second | second_bit), end();
            break;
    }
}

enum Step : std::uint8_t {
    kTake,
    kTakeOther,
    kHeat,
    kUnlisten,
    kSayHot,
    kLook,
    kCool,
    kListen,
    kSayCold,
    kLookAgain,
    kListenLate
};

void next_pair(Model::Walker& walker) {
    walker.step = walker.pair == 0 ? kLook : kTake;
    walker.pair ^= 1;
}

// Taking marks, and heating what was marked.
void step_taking(Model& m, Model::Walker& walker, Fault fault) {
    const bool reversed = fault == Fault::leaf_taken_first;
    const auto next_bit = [&] {
        walker.bits = rest_of(walker.bits);
        walker.pair = 0;
        walker.step = walker.bits != 0 ? kHeat : kLook;
    };
    switch (walker.step) {
        case kTake:
            walker.pair = 0;
            if (reversed)
                walker.bits = m.leaf, m.leaf = 0, walker.step = kTakeOther;
            else
                walker.step = m.summary != 0 ? kTakeOther : kLook, m.summary = 0;
            break;
        case kTakeOther:
            if (reversed)
                m.summary = 0;
            else
                walker.bits = m.leaf, m.leaf = 0;
            walker.step = walker.bits != 0 ? kHeat : kLook;
            break;
        case kHeat:
            walker.pair = (walker.bits & 1) != 0 ? 0 : 1;
            if (m.state[walker.pair] != Model::kCold) return next_bit();
            m.state[walker.pair] = Model::kChanging, walker.step = kUnlisten;
            break;
        case kUnlisten:
            m.listens[walker.pair] = 0, walker.step = kSayHot;
            break;
        case kSayHot:
            m.state[walker.pair] = Model::kHot;
            walker.bits == 0 ? next_pair(walker) : next_bit();
            break;
    }
}

// Looking at what is hot, and cooling. `cools`: whether this look was one in vain too many.
void step_looking(Model& m, Model::Walker& walker, bool cools, Fault fault) {
    const std::size_t pair = walker.pair;
    switch (walker.step) {
        case kLook:
            if (m.state[pair] == Model::kCold) return next_pair(walker);
            m.seen[pair] = m.made[pair];
            cools ? void(walker.step = kCool) : next_pair(walker);
            break;
        case kCool:
            if (m.state[pair] != Model::kHot) return next_pair(walker);
            m.state[pair] = Model::kChanging;
            walker.step = fault == Fault::listens_after_look ? kSayCold : kListen;
            break;
        case kListen:
            m.listens[pair] = 1, walker.step = kSayCold;
            break;
        case kSayCold:
            m.state[pair] = Model::kCold;
            fault == Fault::no_last_look ? next_pair(walker) : void(walker.step = kLookAgain);
            break;
        case kLookAgain:
            if (m.seen[pair] != m.made[pair] && m.state[pair] == Model::kCold)
                m.state[pair] = Model::kChanging, walker.step = kUnlisten;
            else if (fault == Fault::listens_after_look)
                walker.step = kListenLate;
            else
                next_pair(walker);
            break;
        case kListenLate:
            m.listens[pair] = 1, next_pair(walker);
            break;
    }
}

void step_walker(Model& m, std::size_t which, bool cools, Fault fault) {
    Model::Walker& walker = m.walkers[which];
    walker.step < kLook ? step_taking(m, walker, fault) : step_looking(m, walker, cools, fault);
}

// Whether some interleaving leaves work that nobody will look at; `states`: how many there are.
bool loses_work(Fault fault, std::size_t& states) {
    std::unordered_set<Model, Hash> known;
    std::vector<Model> open{Model{}};
    known.insert(open.back());
    while (!open.empty()) {
        const Model from = open.back();
        open.pop_back();
        if (from.at_rest() && from.lost()) return true;
        const auto go = [&](const Model& to) {
            if (known.insert(to).second) open.push_back(to);
        };
        for (std::size_t i = 0; i < 2; ++i) {
            Model to = from;
            if (to.peers[i].left != 0) step_peer(to, i, fault), go(to);
            for (const bool cools : {false, true}) {
                to = from;
                step_walker(to, i, cools, fault);
                go(to);
            }
        }
    }
    states = known.size();
    return false;
}

TEST(WorkBoard, model_loses_no_work_in_any_interleaving) {
    std::size_t states = 0;
    EXPECT_FALSE(loses_work(Fault::none, states));
    EXPECT_GT(states, 10000U);
    RecordProperty("states", static_cast<int>(states));
}

TEST(WorkBoard, model_finds_each_step_that_is_missing_or_misplaced) {
    std::size_t states = 0;
    EXPECT_TRUE(loses_work(Fault::leaf_taken_first, states));
    EXPECT_TRUE(loses_work(Fault::summary_first, states));
    EXPECT_TRUE(loses_work(Fault::no_last_look, states));
    EXPECT_TRUE(loses_work(Fault::listens_after_look, states));
}

// What several peers' threads and several walkers share.
struct Meeting {
    static constexpr std::uint32_t kSlots = 4;
    WorkBoard board;
    std::array<std::atomic<std::uint32_t>, kSlots> made{}, seen{};
    std::atomic<bool> over{false}, late{false};

    static constexpr std::uint32_t slot_of(std::uint32_t i) { return i < 2 ? i : 64 * i; }
    static std::uint32_t index_of(std::uint32_t slot) { return slot < 2 ? slot : slot / 64; }

    // Each waits until it is found: nobody else would rescue it.
    void send(std::uint32_t i, std::uint32_t messages) {
        for (std::uint32_t n = 1; n <= messages && !late.load(); ++n) {
            made[i].store(n, std::memory_order_release);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            board.mark(slot_of(i));
            const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (seen[i].load(std::memory_order_acquire) != n) {
                sched_yield();
                if (std::chrono::steady_clock::now() > end) late.store(true);
                if (late.load()) return;
            }
        }
    }
    void walk() {
        while (!over.load()) {
            board.take([this](std::uint32_t slot) {
                const std::uint32_t i = index_of(slot);
                const std::uint32_t now = made[i].load(std::memory_order_acquire);
                std::uint32_t before = seen[i].load(std::memory_order_relaxed);
                while (before < now && !seen[i].compare_exchange_weak(before, now)) {
                }
            });
            sched_yield();
        }
    }
};

TEST(WorkBoard, threads_lose_no_mark) {
    Meeting meeting;
    std::vector<std::thread> walkers, senders;
    for (int i = 0; i < 2; ++i) walkers.emplace_back([&] { meeting.walk(); });
    for (std::uint32_t i = 0; i < Meeting::kSlots; ++i)
        senders.emplace_back([&, i] { meeting.send(i, 1000); });
    for (std::thread& sender : senders) sender.join();
    meeting.over.store(true);
    for (std::thread& walker : walkers) walker.join();
    EXPECT_FALSE(meeting.late.load()) << "a mark was lost";
}

TEST(WorkBoard, processes_lose_no_mark) {
    void* const pages =
        mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    auto& meeting = *::new (pages) Meeting;
    const pid_t child = fork();
    if (child == 0) {
        meeting.send(0, 500);
        meeting.send(2, 500);
        meeting.over.store(true);
        _exit(0);
    }
    ASSERT_GT(child, 0);
    meeting.walk();
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(meeting.late.load()) << "a mark was lost";
    munmap(pages, sizeof(Meeting));
}

TEST(WorkBoard, hostile_bits_cost_looks_and_nothing_else) {
    WorkBoard board;
    std::memset(reinterpret_cast<void*>(&board), 0xff, sizeof board);
    std::vector<int> looks(WorkBoard::kSlots);
    board.take([&](std::uint32_t slot) { ++looks.at(slot); });
    EXPECT_EQ(looks, std::vector<int>(WorkBoard::kSlots, 1));
    board.take([&](std::uint32_t /*slot*/) { ADD_FAILURE() << "they were taken"; });
}

}  // namespace
}  // namespace verbatim::softnic
