// The arrival protocol with notes (docs/arrival.md) over real atomics, as in
// core_arrival_litmus_test. The receiver is hot, noted, or armed and asleep, by chance. It awaits
// most records in the state that it has chosen, so a lost note is a wait that ends without one.
// Of five runs each, under load, a step that is left out was noticed: the second load of armed in
// 5, the fence in 5, the read of posted in 5. A note before its record is seldom noticed.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

#include "arrival_litmus.hpp"

namespace verbatim::arrival_litmus {
namespace {

using Clock = std::chrono::steady_clock;

// Records. Both threads poll most of the time, which takes long where others use the processors.
constexpr std::uint64_t kChanging = 8'000;

class ChangingReceiver {
  public:
    explicit ChangingReceiver(Shared& shared) : shared_(shared) {}

    // False if it waited for ever.
    bool receive_all() {
        while (consumed_ != kChanging) {
            pause(random_() % kLongestPause);  // the sender comes before, between and after
            if (!receive_some()) return false;
        }
        return true;
    }
    std::uint64_t notes() const { return notes_; }
    std::uint64_t sleeps() const { return sleeps_; }
    std::uint64_t silences() const { return silences_; }

  private:
    // At the beginning no immediate is outstanding.
    bool receive_some() {
        switch (random_() % 3) {
            case 0:
                if (is_noted_) go_silent();
                return stay();
            case 1:
                if (!is_noted_) arm(kByNote);
                return stay();
            default:
                arm(0);
                return sleep();
        }
    }

    // The write of the generation, and the read of posted behind it. Changes of the note count
    // from before.
    void arm(std::uint64_t kind) {
        seen_ = shared_.note.load(std::memory_order_acquire);
        is_noted_ = kind == kByNote;
        issue(kind);
        const std::uint64_t posted = shared_.posted.load();
        Spin spin;
        while (consumed_ < posted) {
            look_at_memory();
            spin.once();
        }
    }
    void go_silent() {
        issue(kSilent);
        is_noted_ = false;
        ++silences_;
    }
    void issue(std::uint64_t kind) {
        shared_.armed.exchange(++issued_ | kind);  // store and full fence
        if (kind != 0) taken_ = issued_;
    }

    bool look_at_memory() {
        const std::uint64_t records = shared_.records.load(std::memory_order_acquire);
        const bool has_news = records != consumed_;
        shared_.consumed.store(consumed_ = records, std::memory_order_release);
        return has_news;
    }
    // Looks at memory while it is hot, or if its note has changed.
    bool poll_once() {
        if (!is_noted_) return look_at_memory();
        const std::uint64_t note = shared_.note.load(std::memory_order_acquire);
        if (note == seen_) return false;
        seen_ = note;
        ++notes_;
        return look_at_memory();
    }
    // Until a record comes; sometimes only for a moment.
    bool stay() {
        const bool is_short = random_() % 4 == 0;
        const std::uint64_t most = random_() % kLongestPause;
        const auto deadline = Clock::now() + std::chrono::milliseconds(kDeadlineMs);
        for (std::uint64_t polls = 0; consumed_ != kChanging && !poll_once(); ++polls) {
            if (is_short && polls == most) return true;
            if (polls % 1024 == 1023) {
                if (Clock::now() > deadline) return false;
                std::this_thread::yield();
            }
            _mm_pause();
        }
        return true;
    }

    bool take_completion() {
        const std::uint64_t completed = shared_.completed.load();
        if (completed == taken_ || completed != issued_) return false;
        taken_ = completed;
        return true;
    }
    // Until the immediate comes; then it is hot.
    bool sleep() {
        while (consumed_ != kChanging) {
            shared_.queue_armed.exchange(true);
            if (take_completion()) break;
            ++sleeps_;
            pollfd entry{shared_.event, POLLIN, 0};
            if (::poll(&entry, 1, kDeadlineMs) != 1) return false;
            eventfd_t count = 0;
            if (eventfd_read(shared_.event, &count) != 0) return false;
        }
        look_at_memory();
        return true;
    }

    Shared& shared_;
    std::mt19937 random_{2};
    std::uint64_t consumed_ = 0, issued_ = 0, taken_ = 0, seen_ = 0;
    std::uint64_t notes_ = 0, sleeps_ = 0, silences_ = 0;
    bool is_noted_ = false;
};

TEST(ArrivalNotesLitmus, receiver_that_changes_its_mind_is_told_of_every_record) {
    Shared shared;
    std::thread sender([&] { send_all(shared, kChanging); });
    ChangingReceiver receiver(shared);
    EXPECT_TRUE(receiver.receive_all()) << "a lost note after " << shared.consumed << " records";
    shared.gave_up = true;
    sender.join();
    RecordProperty("notes", static_cast<int>(receiver.notes()));
    RecordProperty("sleeps", static_cast<int>(receiver.sleeps()));
    RecordProperty("silences", static_cast<int>(receiver.silences()));
}

}  // namespace
}  // namespace verbatim::arrival_litmus
