// Events through a socket, and back.
#include "event_channel.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "../softnic/cancellation.hpp"

namespace verbatim::uverbs {

namespace {

std::uint64_t inode_of(int descriptor) noexcept {
    struct stat facts {};
    return fstat(descriptor, &facts) == 0 ? facts.st_ino : 0;
}

// A thread that does neither gets its events when it has worked so long. Of its own time: on a busy
// machine it may wait much longer for a core.
constexpr std::chrono::nanoseconds kLongestHold = std::chrono::milliseconds(5);

// What a thread of this process has used of its core; none: it is gone. The clock's name is the
// kernel's for any thread (clock_gettime(2) has it for the caller's own only).
std::optional<std::chrono::nanoseconds> time_used(int thread) noexcept {
    constexpr clockid_t kOfThread = 6;
    timespec time{};
    if (clock_gettime((~static_cast<clockid_t>(thread) << 3) | kOfThread, &time) != 0)
        return std::nullopt;
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// Whether a thread of this process waits for something. Its state stands behind its name, which is
// in brackets and may hold any character (proc(5), "stat").
bool sleeps(int thread) noexcept {
    std::array<char, 64> path;
    *fmt::format_to_n(path.data(), path.size() - 1, "/proc/self/task/{}/stat", thread).out = '\0';
    const softnic::Descriptor file(open(path.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 128> text;
    const ssize_t bytes = file.get() < 0 ? 0 : read(file.get(), text.data(), text.size());
    const std::string_view facts(text.data(),
                                 static_cast<std::size_t>(std::max<ssize_t>(bytes, 0)));
    const std::size_t name_end = facts.rfind(") ");
    return name_end == std::string_view::npos || name_end + 2 >= facts.size() ||
           facts[name_end + 2] != 'R';
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

void EventChannel::note_arming() noexcept {
    [[gnu::tls_model("initial-exec")]] thread_local const int self = gettid();
    armings_.fetch_add(1, std::memory_order_relaxed);
    armer_.store(self);
}

bool EventChannel::still_held() noexcept {
    const int thread = armer_.load();
    if (thread == 0) return false;
    const auto used = time_used(thread);
    if (!used || sleeps(thread)) return false;
    const std::uint32_t armings = armings_.load(std::memory_order_relaxed);
    if (std::exchange(armings_seen_, armings) != armings) used_then_ = *used;
    return *used - used_then_ < kLongestHold;
}

bool EventSocket::closed() const noexcept {
    pollfd entry{ours_.get(), 0, 0};
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

}  // namespace verbatim::uverbs
