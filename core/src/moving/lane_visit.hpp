// A visit runs one step in the thread of another lane, while the visitor goes on with its own: two
// pollers that visit each other do not wait for each other.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <thread>

#include "../lane/lane_impl.hpp"

namespace verbatim {

// The step belongs to the thread that begins it.
class LaneVisit {
  public:
    bool begin() noexcept { return !has_begun_.exchange(true); }
    template <class Step>
    void run(Step& step) noexcept {
        try {
            step();
        } catch (...) {
            error_ = std::current_exception();
        }
        is_over_.store(true, std::memory_order_release);
    }
    bool is_over() const noexcept { return is_over_.load(std::memory_order_acquire); }
    void rethrow() const {
        if (error_ != nullptr) std::rethrow_exception(error_);
    }

  private:
    std::atomic<bool> has_begun_{false}, is_over_{false};
    std::exception_ptr error_;
};

// A poller drives the lane, in another thread.
inline bool is_driven_elsewhere(Lane::Impl& lane) noexcept {
    const std::thread::id runner = lane.runner().load(std::memory_order_acquire);
    return runner != std::thread::id{} && runner != std::this_thread::get_id();
}

// Runs `step` on `lane`: by a task where a poller drives it elsewhere, else in this call. Polls
// `own` meanwhile, whose thread this is. Throws what the step throws.
template <class Step>
void visit(const std::shared_ptr<Lane::Impl>& lane, Lane::Impl& own, Step step) {
    const auto talk = std::make_shared<LaneVisit>();
    // The call outlives a step that was begun. The task must not keep the lane.
    if (is_driven_elsewhere(*lane))
        Lane(lane).submit([talk, &step]() noexcept {
            if (talk->begin()) talk->run(step);
        });
    for (unsigned round = 0; !talk->is_over(); ++round) {
        if (!is_driven_elsewhere(*lane) && talk->begin()) {  // the poller may have gone, too
            const auto guard = lane->enter();
            talk->run(step);
            continue;
        }
        (void)own.poll();
        std::this_thread::yield();
    }
    talk->rethrow();
}

}  // namespace verbatim
