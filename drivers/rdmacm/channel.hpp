// One open of /dev/infiniband/rdma_cm: the queue of events that its owner reads. The descriptor is
// the reading end of a pipe that holds a byte as long as there are events, so poll(), epoll and
// O_NONBLOCK are the system's. Threads: everything under the manager's lock, but for wait().
#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "../softnic/host/descriptor.hpp"
#include "../uverbs/tree/handed_out.hpp"

namespace verbatim::rdmacm {

struct Event {
    std::uint32_t owner;  // the identifier that it counts for
    rdma_ucm_event_resp facts;
    std::uint32_t request = 0;  // the new identifier of a connection request
};

class Channel {
  public:
    // Throws Error(device_error) if there are no descriptors left.
    Channel();

    // What open() hands out, and the program closes.
    int descriptor() const noexcept { return programs_end_; }
    bool inherited() const noexcept {
        return generation_ != softnic::fork_generation() || !handed_out_->mine();
    }
    // Whether a number is that descriptor still.
    bool is(int descriptor) const noexcept { return handed_out_->is(descriptor); }

    void push(const Event& event);
    bool empty() const noexcept { return events_.empty(); }
    Event pop();
    // Withdraws what an identifier has not been told yet.
    std::vector<Event> take_events_of(std::uint32_t owner);

    // The program has closed it. A thread that waits here stays where it is, as in linux: rping's
    // would take its waking for an error.
    void end() noexcept { ended_ = true; }
    bool ended() const noexcept { return ended_; }

    // Until there are events. 0, EAGAIN where the descriptor does not block, or EINTR. Without the
    // manager's lock. A point of cancellation.
    int wait() const;

  private:
    void signal() noexcept;
    void unsignal() noexcept;

    std::deque<Event> events_;
    int programs_end_ = -1;
    std::optional<uverbs::HandedOut> handed_out_;
    softnic::Descriptor reading_, writing_;
    bool ended_ = false;
    std::uint64_t generation_ = softnic::fork_generation();
};

}  // namespace verbatim::rdmacm
