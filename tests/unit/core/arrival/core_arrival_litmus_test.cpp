// The arrival protocol of docs/arrival.md over real atomics: sender and receiver are two threads,
// each of which executes its requests in the other's memory itself, as the software NIC does on one
// host. A lost wake-up is a wait for the event that ends without one. All interleavings are those
// of core_arrival_model_test; here a step that is left out is noticed by chance. Of five runs under
// a load of 6 on two cores: without the second load of armed in 5, without the second poll in 3,
// without the fence in 1, without the read of posted in 1.
#include <gtest/gtest.h>
#include <immintrin.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

namespace {

constexpr std::uint64_t kRecords = 20'000;
constexpr int kDeadlineMs = 20'000;
// Pauses. Short ones, so that both sides' steps fall together.
constexpr std::uint64_t kLongestPause = 16, kLongestDelay = 64;

struct Shared {
    alignas(64) std::atomic<std::uint64_t> armed{0};      // owner: the receiver
    alignas(64) std::atomic<std::uint64_t> posted{0};     // owner: the sender, as all that follow
    alignas(64) std::atomic<std::uint64_t> records{0};    // in the receiver's memory
    alignas(64) std::atomic<std::uint64_t> completed{0};  // the last immediate's generation
    alignas(64) std::atomic<bool> queue_armed{false};  // set by the receiver, cleared by the device
    alignas(64) std::atomic<std::uint64_t> consumed{0};  // owner: the receiver
    std::atomic<bool> gave_up{false};
    int event = eventfd(0, EFD_CLOEXEC);
    ~Shared() { close(event); }
};

void pause(std::uint64_t times) {
    for (; times != 0; --times) _mm_pause();
}

class Sender {
  public:
    explicit Sender(Shared& shared) : shared_(shared) {}

    // The device executes the record `delay` pauses after the protocol's last step.
    void send(std::uint64_t delay) {
        const std::uint64_t first = generation_to_notify(shared_.armed.load());
        shared_.posted.exchange(++sent_);  // store and full fence
        const std::uint64_t second = generation_to_notify(shared_.armed.load());
        pause(delay);
        shared_.records.store(sent_, std::memory_order_release);
        if (first != 0) complete(first);
        if (second != 0) complete(second);
    }

  private:
    std::uint64_t generation_to_notify(std::uint64_t armed) {
        if (armed == notified_) return 0;
        EXPECT_EQ(armed, notified_ + 1);
        return notified_ = armed;
    }
    void complete(std::uint64_t generation) {
        shared_.completed.store(generation);
        if (shared_.queue_armed.exchange(false)) eventfd_write(shared_.event, 1);
    }

    Shared& shared_;
    std::uint64_t sent_ = 0, notified_ = 0;
};

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
        while (shared_.records.load(std::memory_order_acquire) < posted) _mm_pause();
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

// One record at a time, after a pause that moves it across the receiver's steps.
void send_all(Shared& shared) {
    Sender sender(shared);
    std::mt19937 random(1);
    for (std::uint64_t sent = 0; sent != kRecords;) {
        pause(random() % kLongestPause);
        sender.send(random() % kLongestDelay);
        ++sent;
        while (shared.consumed.load(std::memory_order_acquire) != sent) {
            if (shared.gave_up.load()) return;
            _mm_pause();
        }
    }
}

TEST(ArrivalLitmus, receiver_that_sleeps_is_woken_for_every_record) {
    Shared shared;
    std::thread sender([&] { send_all(shared); });
    Receiver receiver(shared);
    EXPECT_TRUE(receiver.receive_all()) << "a lost wake-up after " << shared.consumed << " records";
    shared.gave_up = true;
    sender.join();
    RecordProperty("sleeps", static_cast<int>(receiver.sleeps()));
}

}  // namespace
