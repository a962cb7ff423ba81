// What both litmus tests of the arrival protocol (docs/arrival.md) share: the memory of both sides,
// and a sender that executes its requests in the receiver's memory itself, as the software NIC does
// on one host.
#pragma once

#include <emmintrin.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

namespace verbatim::arrival_litmus {

inline constexpr int kDeadlineMs = 20'000;
// Pauses. Short ones, so that both sides' steps fall together.
inline constexpr std::uint64_t kLongestPause = 16, kLongestDelay = 64;
// The kinds of generations; those by immediate have neither bit.
inline constexpr std::uint64_t kByNote = std::uint64_t{1} << 63, kSilent = std::uint64_t{1} << 62;
constexpr std::uint64_t number_of(std::uint64_t armed) { return armed & ~(kByNote | kSilent); }

struct Shared {
    alignas(64) std::atomic<std::uint64_t> armed{0};      // owner: the receiver
    alignas(64) std::atomic<std::uint64_t> posted{0};     // owner: the sender, as all that follow
    alignas(64) std::atomic<std::uint64_t> records{0};    // in the receiver's memory
    alignas(64) std::atomic<std::uint64_t> note{0};       // the same
    alignas(64) std::atomic<std::uint64_t> completed{0};  // the last immediate's generation
    alignas(64) std::atomic<bool> queue_armed{false};  // set by the receiver, cleared by the device
    alignas(64) std::atomic<std::uint64_t> consumed{0};  // owner: the receiver
    std::atomic<bool> gave_up{false};
    int event = eventfd(0, EFD_CLOEXEC);
    ~Shared() { close(event); }
};

inline void pause(std::uint64_t times) {
    for (; times != 0; --times) _mm_pause();
}

// A wait for the other thread, which may have no processor: gives up this one's after a while.
class Spin {
  public:
    void once() {
        _mm_pause();
        if (++times_ % kTimes == 0) std::this_thread::yield();
    }

  private:
    static constexpr unsigned kTimes = 2000;
    unsigned times_ = 0;
};

class Sender {
  public:
    explicit Sender(Shared& shared) : shared_(shared) {}

    // The device executes the record `delay` pauses after the protocol's last step.
    void send(std::uint64_t delay) {
        const std::uint64_t first = generation_to_notify(shared_.armed.load());
        shared_.posted.exchange(++sent_);  // store and full fence
        const std::uint64_t armed = shared_.armed.load();
        const std::uint64_t second = generation_to_notify(armed);
        pause(delay);
        shared_.records.store(sent_, std::memory_order_release);
        if ((armed & kByNote) != 0) shared_.note.store(++notes_, std::memory_order_release);
        if (first != 0) complete(first);
        if (second != 0) complete(second);
    }

  private:
    // By an immediate.
    std::uint64_t generation_to_notify(std::uint64_t armed) {
        if (armed == seen_) return 0;
        EXPECT_GT(number_of(armed), number_of(seen_));
        seen_ = armed;
        return (armed & (kByNote | kSilent)) != 0 ? 0 : armed;
    }
    void complete(std::uint64_t generation) {
        shared_.completed.store(generation);
        if (shared_.queue_armed.exchange(false)) eventfd_write(shared_.event, 1);
    }

    Shared& shared_;
    std::uint64_t sent_ = 0, seen_ = 0, notes_ = 0;
};

// One record at a time, after a pause that moves it across the receiver's steps.
inline void send_all(Shared& shared, std::uint64_t records) {
    Sender sender(shared);
    std::mt19937 random(1);
    for (std::uint64_t sent = 0; sent != records;) {
        pause(random() % kLongestPause);
        sender.send(random() % kLongestDelay);
        ++sent;
        Spin spin;
        while (shared.consumed.load(std::memory_order_acquire) != sent) {
            if (shared.gave_up.load()) return;
            spin.once();
        }
    }
}

}  // namespace verbatim::arrival_litmus
