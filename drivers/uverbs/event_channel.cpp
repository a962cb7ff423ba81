// Events through a socket, and back.
#include "event_channel.hpp"

#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <vector>

#include <verbatim/driver/error.hpp>

namespace verbatim::uverbs {

namespace {

std::uint64_t inode_of(int descriptor) noexcept {
    struct stat facts {};
    return fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

EventChannel::EventChannel() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
        ours_ = softnic::Descriptor(ends[0]);
        programs_end_ = ends[1];
        inode_ = inode_of(programs_end_);
        return;
    }
    throw Error(Errc::device_error, "completion channel", "no file descriptor is left for it",
                "raise the limit of open files (ulimit -n)");
}

bool EventChannel::post(std::uint64_t queue, std::atomic<std::uint32_t>& sent) noexcept {
    const std::lock_guard lock(mutex_);
    const ib_uverbs_comp_event_desc event{queue};
    // Counted first: the program may have read it before send() returns.
    sent.fetch_add(1, std::memory_order_relaxed);
    if (send(ours_.get(), &event, sizeof event, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof event)
        return true;
    sent.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

std::uint32_t EventChannel::withdraw(std::uint64_t queue) {
    const std::lock_guard lock(mutex_);
    std::vector<ib_uverbs_comp_event_desc> others;
    std::uint32_t taken = 0;
    ib_uverbs_comp_event_desc event;
    if (inode_of(programs_end_) != inode_) return 0;
    while (recv(programs_end_, &event, sizeof event, MSG_DONTWAIT) == sizeof event) {
        if (event.cq_handle == queue)
            ++taken;
        else
            others.push_back(event);
    }
    for (const auto& other : others)
        send(ours_.get(), &other, sizeof other, MSG_DONTWAIT | MSG_NOSIGNAL);
    return taken;
}

bool EventChannel::closed() const noexcept {
    pollfd entry{ours_.get(), 0, 0};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

}  // namespace verbatim::uverbs
