// The arrival protocol of docs/arrival.md over real atomics: sender and receiver are two threads,
// each of which executes its requests in the other's memory itself, as the software NIC does on one
// host. A lost wake-up is a wait for the event that ends without one. All interleavings are those
// of core_arrival_model_test; here a step that is left out is noticed by chance. Of five runs under
// a load of 6 on two cores: without the second load of armed in 5, without the second poll in 3,
// without the fence in 1, without the read of posted in 1.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include "arrival_litmus.hpp"

namespace verbatim::arrival_litmus {
namespace {

constexpr std::uint64_t kRecords = 20'000;

class Receiver {
  public:
    explicit Receiver(Shared& shared) : shared_(shared) {}

    // False if it slept for ever.
    bool receive_all() {
        while (consumed_ != kRecords) {
            if (poll()) continue;
            pause(random_() % kLongestPause);  // the sender comes before, between and after
            if (!arm() && !sleep()) return false;
        }
        return true;
    }
    std::uint64_t sleeps() const { return sleeps_; }

  private:
    bool poll() {
        const std::uint64_t records = shared_.records.load(std::memory_order_acquire);
        const bool has_news = records != consumed_;
        shared_.consumed.store(consumed_ = records, std::memory_order_release);
        return take_completion() || has_news;
    }
    bool take_completion() {
        const std::uint64_t completed = shared_.completed.load();
        if (completed == taken_) return false;
        EXPECT_EQ(completed, issued_);  // one is outstanding at most
        taken_ = completed;
        return true;
    }
    // The write of the generation, and the read of posted behind it.
    bool arm() {
        if (taken_ != issued_) return false;
        shared_.armed.exchange(++issued_);
        const std::uint64_t posted = shared_.posted.load();
        Spin spin;
        while (shared_.records.load(std::memory_order_acquire) < posted) spin.once();
        return true;
    }
    bool sleep() {
        shared_.queue_armed.exchange(true);
        if (take_completion()) return true;
        ++sleeps_;
        pollfd entry{shared_.event, POLLIN, 0};
        if (::poll(&entry, 1, kDeadlineMs) != 1) return false;
        eventfd_t count = 0;
        return eventfd_read(shared_.event, &count) == 0;
    }

    Shared& shared_;
    std::mt19937 random_{2};
    std::uint64_t consumed_ = 0, issued_ = 0, taken_ = 0, sleeps_ = 0;
};

TEST(ArrivalLitmus, receiver_that_sleeps_is_woken_for_every_record) {
    Shared shared;
    std::thread sender([&] { send_all(shared, kRecords); });
    Receiver receiver(shared);
    EXPECT_TRUE(receiver.receive_all()) << "a lost wake-up after " << shared.consumed << " records";
    shared.gave_up = true;
    sender.join();
    RecordProperty("sleeps", static_cast<int>(receiver.sleeps()));
}

}  // namespace
}  // namespace verbatim::arrival_litmus
