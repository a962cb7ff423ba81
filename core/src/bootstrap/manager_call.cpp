// Looking up, and trying one address behind the other.
#include "manager_call.hpp"

#include <algorithm>
#include <utility>

#include <verbatim/driver/deadline.hpp>

namespace verbatim {

ManagerCall::ManagerCall(rdma::CmStreams& streams, ManagerPort to, Deadline deadline)
    : streams_(streams),
      to_(std::move(to)),
      deadline_(deadline),
      addresses_(tcp::numeric_addresses(to_.at)) {
    next_ = addresses_.get();
    if (next_ == nullptr) lookup_.emplace([at = to_.at] { return tcp::resolve(at, 0); });
}

bool ManagerCall::has_looked_up() {
    if (!lookup_) return true;
    if (!lookup_->is_over()) return false;
    addresses_ = lookup_->get();
    next_ = addresses_.get();
    lookup_.reset();
    return true;
}

void ManagerCall::begin() {
    const addrinfo& address = *std::exchange(next_, next_->ai_next);
    const int left = std::max(milliseconds_until(deadline_.when), 1);
    pending_.emplace(streams_.call(*address.ai_addr, std::chrono::milliseconds(left)));
}

// The error of the last address is the call's.
bool ManagerCall::has_called() try {
    if (!pending_) begin();
    stream_ = pending_->take();
    return stream_.has_value();
} catch (const Error&) {
    if (next_ == nullptr || deadline_.passed()) throw;
    begin();
    return false;
}

bool ManagerCall::go_on() { return has_looked_up() && has_called(); }

pollfd ManagerCall::waits_for() const noexcept {
    if (lookup_) return {lookup_->descriptor(), POLLIN, 0};
    return {pending_ ? pending_->file() : -1, POLLIN, 0};
}

}  // namespace verbatim
