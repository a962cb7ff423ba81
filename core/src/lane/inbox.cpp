// The bell of an inbox: the lane says that it sleeps, then looks once more; a producer pushes, then
// looks whether the lane sleeps. So one of them sees the other.
#include "inbox.hpp"

#include <sys/eventfd.h>

#include <cerrno>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/error.hpp>

namespace verbatim {
namespace {

constexpr std::size_t kItemsAtFirst = 128;
// Of one poll, before the lane's connections have their turn.
constexpr std::size_t kMostAtOnce = 256;

}  // namespace

Inbox::Inbox() : items_(kItemsAtFirst), bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!bell_)
        throw Error(Errc::device_error, "lane", "no descriptor: " + errno_text(errno),
                    "raise the limit: ulimit -n");
}

// Tasks that no poll took are dropped.
Inbox::~Inbox() {
    items_.consume_all([](InboxItem* item) { item->drop(*item); });
}

void Inbox::reserve() {
    std::size_t spare = spare_.load(std::memory_order_relaxed);
    while (spare != 0)
        if (spare_.compare_exchange_weak(spare, spare - 1, std::memory_order_relaxed)) return;
    items_.reserve(1);
    ++most_reserved_;
}

void Inbox::push(InboxItem& item) {
    items_.push(&item);
    ring();
}

void Inbox::ring() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (asleep_.load(std::memory_order_relaxed) &&
        asleep_.exchange(false, std::memory_order_relaxed))
        (void)eventfd_write(bell_.get(), 1);
}

std::size_t Inbox::take_all() noexcept {
    std::size_t count = 0;
    InboxItem* item = nullptr;
    for (; count < kMostAtOnce && items_.pop(item); ++count) item->take(*item);
    return count;
}

bool Inbox::prepare_to_sleep() noexcept {
    asleep_.store(true, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return items_.empty();
}

void Inbox::quiet() noexcept {
    eventfd_t count = 0;
    (void)eventfd_read(bell_.get(), &count);
}

}  // namespace verbatim
