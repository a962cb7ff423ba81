// A repeated step is offered again by polls of the lane, until it would block no longer. Verbatim's
// own layers go on so with what no event tells of. Threads: the lane's. Data path.
#pragma once

#include <optional>

#include <verbatim/core/one_sided.hpp>

namespace verbatim {

// `Step`: Errc operator()() noexcept. Outlives no connection with a step under way.
template <class Step>
class RepeatedStep {
  public:
    RepeatedStep(OneSided one_sided, Step step) noexcept : one_sided_(one_sided), step_(step) {}
    RepeatedStep(const RepeatedStep&) = delete;
    RepeatedStep& operator=(const RepeatedStep&) = delete;

    // Takes the step now, or with the next polls. Nothing, where one is under way.
    void begin() noexcept {
        if (is_under_way_) return;
        is_under_way_ = true;
        waiter_.reset();
        waiter_.emplace(one_sided_, Offer{this}, Done{this});
    }

  private:
    struct Offer {
        RepeatedStep* of;
        Errc operator()(Operation&) const noexcept { return of->step_(); }
    };
    struct Done {
        RepeatedStep* of;
        void operator()(Errc) const noexcept { of->is_under_way_ = false; }
    };

    OneSided one_sided_;
    Step step_;
    bool is_under_way_ = false;
    std::optional<WhenDone<Offer, Done>> waiter_;
};

}  // namespace verbatim
