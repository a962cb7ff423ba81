// Events through a socket, and back.
#include "event_channel.hpp"

#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../../softnic/host/cancellation.hpp"

namespace verbatim::uverbs {

namespace {

std::uint64_t inode_of(int descriptor) noexcept {
    struct stat facts {};
    return fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
}

}  // namespace

EventSocket::EventSocket() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
        ours_ = softnic::Descriptor(ends[0]);
        programs_end_ = ends[1];
        inode_ = inode_of(programs_end_);
        return;
    }
    throw Error(Errc::device_error, "event channel", "no file descriptor is left for it",
                "raise the limit of open files (ulimit -n)");
}

bool EventSocket::send(std::span<const std::byte> event,
                       std::atomic<std::uint32_t>& sent) noexcept {
    const softnic::WithoutCancellation none;
    const std::lock_guard lock(mutex_);
    // Counted first: the program may have read it before send() returns.
    sent.fetch_add(1, std::memory_order_relaxed);
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    if (::send(ours_.get(), event.data(), event.size(), kFlags) ==
        static_cast<ssize_t>(event.size()))
        return true;
    sent.fetch_sub(1, std::memory_order_relaxed);
    return false;
}

std::uint32_t EventSocket::withdraw_all(std::uint64_t first_word) {
    const std::lock_guard lock(mutex_);
    std::vector<std::vector<std::byte>> others;
    std::uint32_t taken = 0;
    std::array<std::byte, sizeof(ib_uverbs_async_event_desc)> event;
    if (inode_of(programs_end_) != inode_) return 0;
    for (;;) {
        const ssize_t bytes = recv(programs_end_, event.data(), event.size(), MSG_DONTWAIT);
        std::uint64_t word = 0;
        if (bytes < static_cast<ssize_t>(sizeof word)) break;
        std::memcpy(&word, event.data(), sizeof word);
        if (word == first_word)
            ++taken;
        else
            others.emplace_back(event.begin(), event.begin() + bytes);
    }
    for (const auto& other : others)
        ::send(ours_.get(), other.data(), other.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return taken;
}

bool EventChannel::post(std::uint64_t queue, std::atomic<std::uint32_t>& sent) noexcept {
    const ib_uverbs_comp_event_desc event{queue};
    return send(std::as_bytes(std::span(&event, 1)), sent);
}

void AsyncEvents::post(std::uint64_t object, AsyncEvent event,
                       std::atomic<std::uint32_t>& sent) noexcept {
    ib_uverbs_async_event_desc description{};
    description.element = object;
    description.event_type = static_cast<std::uint32_t>(event);
    if (!send(std::as_bytes(std::span(&description, 1)), sent))
        log::warn("software NIC under rdma-core: nobody reads asynchronous events, one is lost");
}

bool EventSocket::closed() const noexcept {
    pollfd entry{ours_.get(), 0, 0};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

}  // namespace verbatim::uverbs
