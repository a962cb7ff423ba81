// Checks the contract "one thread at a time" in debug builds: a second thread inside stops the
// program with a message, because what it would break shows up much later. Costs nothing in release
// builds. A forked child has none of the threads that were inside, and checks nothing.
#pragma once

#ifndef NDEBUG
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <verbatim/driver/descriptor.hpp>
#endif

namespace verbatim {

#ifdef NDEBUG

class OneThread {
  public:
    struct Guard {
        ~Guard() {}  // not trivial, so that an unused guard draws no warning
    };
    Guard enter(const char*) noexcept { return {}; }
};

#else

class OneThread {
  public:
    class Guard {
      public:
        // Null: in a child.
        explicit Guard(OneThread* owner) noexcept : owner_(owner) {}
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;
        ~Guard() {
            if (owner_ != nullptr && --owner_->depth_ == 0)
                owner_->inside_.store({}, std::memory_order_release);
        }

      private:
        OneThread* owner_;
    };

    // `object`: for the message. The same thread may enter again.
    Guard enter(const char* object) noexcept {
        if (generation_ != fork_generation()) return Guard(nullptr);
        const std::thread::id self = std::this_thread::get_id();
        std::thread::id nobody{};
        if (!inside_.compare_exchange_strong(nobody, self, std::memory_order_acquire) &&
            nobody != self) {
            std::fprintf(stderr, "verbatim: %s is used by two threads at once\n", object);
            std::abort();
        }
        ++depth_;
        return Guard(this);
    }

  private:
    std::atomic<std::thread::id> inside_{};
    int depth_ = 0;  // owner: the thread inside
    const std::uint64_t generation_ = fork_generation();
};

#endif

}  // namespace verbatim
