// The counter is an eventfd that is read one by one. Doors are never read: the epoll instance
// reports each ring once.
#include "completion_channel.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::softnic {
namespace {

std::atomic<std::uint32_t> last_door{0};

// Rings that one look takes; the others are taken by the next one.
constexpr int kRingsPerLook = 16;
constexpr std::uint64_t kCounter = 0;  // doors count from 1

[[noreturn]] void fail_channel(int cause) {
    throw Error(Errc::device_error, "software NIC completion channel", std::strerror(cause),
                "raise the limit of open files (ulimit -n)");
}

bool watch(const Descriptor& waited, int file, std::uint32_t events, std::uint64_t name) noexcept {
    epoll_event event{};
    event.events = events;
    event.data.u64 = name;
    return epoll_ctl(waited.get(), EPOLL_CTL_ADD, file, &event) == 0;
}

}  // namespace

WakeDoor::WakeDoor(CompletionChannel& channel, std::uint64_t session, Descriptor file)
    : channel_(channel),
      session_(session),
      number_(++last_door),
      file_(std::make_shared<const WakeFile>(std::move(file))) {}

// A forked child has other files by these numbers.
WakeDoor::~WakeDoor() {
    if (generation_ == fork_generation()) channel_.forget(*this);
}

CompletionChannel::CompletionChannel()
    : counter_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE)),
      waited_(epoll_create1(EPOLL_CLOEXEC)) {
    if (!counter_ || !waited_ || !watch(waited_, counter_.get(), EPOLLIN, kCounter))
        fail_channel(errno);
}

void CompletionChannel::add(Source& source) {
    const std::lock_guard lock(mutex_);
    sources_.push_back(&source);
}

// A thread of the parent may have the lock: a forked child leaves the list as it is.
void CompletionChannel::remove(const Source& source) {
    if (!counter_) return;
    const std::lock_guard lock(mutex_);
    std::erase(sources_, &source);
}

void CompletionChannel::raise(Source& source) noexcept {
    source.events.fetch_add(1, std::memory_order_release);
    const std::uint64_t one = 1;
    // It fails only at a count that nobody reaches, and can be read then as well.
    if (write(counter_.get(), &one, sizeof one) < 0) return;
}

CompletionQueueHandle* CompletionChannel::take_event() {
    if (!counter_) return nullptr;
    const std::lock_guard lock(mutex_);
    CompletionQueueHandle* woken = nullptr;
    const bool counted = doors_.empty() || look(woken);
    return woken == nullptr && counted ? take_counted() : woken;
}

// Under mutex_, as the next ones.
CompletionQueueHandle* CompletionChannel::take_counted() noexcept {
    std::uint64_t one = 0;
    // Events of queues that were destroyed meanwhile are counted but nobody's.
    while (read(counter_.get(), &one, sizeof one) == static_cast<ssize_t>(sizeof one)) {
        for (auto at = sources_.begin(); at != sources_.end(); ++at) {
            Source& source = **at;
            if (source.events.load(std::memory_order_acquire) == 0) continue;
            source.events.fetch_sub(1, std::memory_order_relaxed);
            std::rotate(at, at + 1, sources_.end());  // the others first, next time
            return source.queue;
        }
    }
    return nullptr;
}

// True: the counter may be read. A ring names no queue, so each that is armed has an event: a peer
// tells of one sleep once. The first one's is taken; the others' are counted, for the descriptor
// must stay readable.
bool CompletionChannel::look(CompletionQueueHandle*& woken) noexcept {
    epoll_event events[kRingsPerLook];
    const int count = epoll_wait(waited_.get(), events, kRingsPerLook, 0);
    bool counted = false, rung = false;
    for (int i = 0; i < count; ++i) (events[i].data.u64 == kCounter ? counted : rung) = true;
    for (Source* const source : sources_) {
        if (!rung || !source->disarm(source->queue)) continue;
        if (woken == nullptr)
            woken = source->queue;
        else
            raise(*source);
    }
    return counted || count == kRingsPerLook;
}

std::shared_ptr<WakeDoor> CompletionChannel::door_for(std::uint64_t session) {
    const std::lock_guard lock(mutex_);
    std::erase_if(doors_, [](const auto& door) { return door.expired(); });
    for (const auto& known : doors_)
        if (auto door = known.lock(); door != nullptr && door->session() == session) return door;
    Descriptor file(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!file) return nullptr;
    const int number = file.get();
    auto door = std::make_shared<WakeDoor>(*this, session, std::move(file));
    if (!watch(waited_, number, EPOLLIN | EPOLLET, door->number())) return nullptr;
    doors_.push_back(door);
    return door;
}

// The peer may have the file still, so the kernel does not forget it by itself.
void CompletionChannel::forget(const WakeDoor& door) noexcept {
    static_cast<void>(epoll_ctl(waited_.get(), EPOLL_CTL_DEL, door.file()->file(), nullptr));
}

}  // namespace verbatim::softnic
