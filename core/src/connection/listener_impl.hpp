// Accepting: strangers are heard side by side, and shaken hands with side by side, so that one who
// says nothing, or nothing more, keeps nobody waiting.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <verbatim/core/context.hpp>

#include "../bootstrap/side_channel.hpp"
#include "context_impl.hpp"
#include "welcomes.hpp"

namespace verbatim {

struct Listener::Impl {
    Impl(std::shared_ptr<Context::Impl> shared, Lane lane_of_context, Descriptor bound)
        : context(std::move(shared)), lane(std::move(lane_of_context)), socket(std::move(bound)) {}

    // The next caller who completes the hello, on this lane. In its thread. Throws Error(timeout).
    Connection accept(const std::shared_ptr<Lane::Impl>& lane, Deadline deadline);

    std::shared_ptr<Context::Impl> context;
    Lane lane;  // the context's
    Descriptor socket;

  private:
    // Someone who has connected and not yet said hello.
    struct Caller {
        SideChannel channel;
        Deadline deadline;
    };

    void take_callers();
    void wait(Deadline deadline);
    void hear_callers(const std::shared_ptr<Lane::Impl>& lane);
    // Nothing while the hello is incomplete. Throws Error if the caller must go.
    std::optional<Hello> hear(Caller& caller);

    std::vector<Caller> callers_;
    bool starved_ = false;  // the last caller could not be taken for want of a descriptor
    Welcomes welcomes_;
};

}  // namespace verbatim
