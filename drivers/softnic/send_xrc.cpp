// XRC initiators: each request names a shared receive queue of the peer, in a segment of its own
// behind the control segment. The peer is told when the number changes, and keeps it.
#include "send_engine.hpp"

namespace verbatim::softnic {

using mlx5::Syndrome;

// Done: what follows is for the request's queue, and its protection domain is the one that keys are
// checked against.
SendEngine::Verdict SendEngine::name_queue(Request& request) noexcept {
    constexpr std::uint32_t kNumber = 0xffffff;
    if (mlx5::units_of(request.control) < kXrcUnits) {
        shared_->failure.set("a request of an XRC queue pair that names no shared receive queue");
        return fail(request, Syndrome::local_queue_pair);
    }
    const std::uint32_t queue =
        request.wqe.read<mlx5::XrcSegment>(1).shared_receive_queue.native() & kNumber;
    const auto domain = shared_->outgoing.protection_domain(queue);
    if (!domain) {
        shared_->failure.set("the peer has no shared receive queue {} in its XRC domain", queue);
        return fail(request, Syndrome::remote_invalid);
    }
    if (queue != named_queue_) {
        std::size_t capacity = 0;
        if (shared_->outgoing.reserve(capacity, 0) == nullptr) return no_room(request);
        shared_->outgoing.commit({0, kQueueRecord | kFirstRecord | kLastRecord, queue, 0});
        named_queue_ = queue;
    }
    remote_.expect_domain(*domain);
    return Verdict::done;
}

}  // namespace verbatim::softnic
