// The threads that drive a lane, as Lane::call() asks for them: whether the caller's own would have
// to take the task. Threads: questions from any; the rest from the lane's.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>

namespace verbatim {

class LaneUsers {
  public:
    // This thread is inside a task of the lane.
    bool in_task() const noexcept {
        return in_task_.load(std::memory_order_relaxed) == std::this_thread::get_id();
    }
    // This thread polled the lane last, or none has, as far as is known: one poll in 64 tells.
    bool was_here() const noexcept {
        const std::uint64_t last = last_.load(std::memory_order_relaxed);
        return last == 0 || last == number();
    }
    // The poller that drove it has ended, and no thread polled it since.
    bool is_left() const noexcept { return is_left_.load(std::memory_order_seq_cst); }

    // Runs tasks of the lane.
    template <class Tasks>
    auto run(Tasks tasks) noexcept {
        is_here();
        const std::thread::id outer = in_task_.load(std::memory_order_relaxed);
        in_task_.store(std::this_thread::get_id(), std::memory_order_relaxed);
        const auto count = tasks();
        in_task_.store(outer, std::memory_order_relaxed);
        return count;
    }
    // This thread polls.
    void is_here() noexcept {
        if (last_.exchange(number(), std::memory_order_relaxed) == number()) return;
        is_left_.store(false, std::memory_order_relaxed);
    }
    // Its poller ends. What was pushed before is taken afterwards.
    void leave() noexcept {
        is_here();
        is_left_.store(true, std::memory_order_seq_cst);
    }

  private:
    // Of this thread. The system gives ids of ended threads to new ones.
    static std::uint64_t number() noexcept {
        static std::atomic<std::uint64_t> last{0};
        static thread_local const std::uint64_t mine = ++last;
        return mine;
    }

    std::atomic<std::thread::id> in_task_{};
    std::atomic<std::uint64_t> last_{0};
    std::atomic<bool> is_left_{false};
};

}  // namespace verbatim
