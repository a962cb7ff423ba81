// A table with a lock, and marks beside it that need none.
#include "open_channels.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/log.hpp>

#include "manager.hpp"

namespace verbatim::rdmacm {
namespace {

// Linux' limit of descriptors where nobody has raised it (fs.nr_open).
constexpr std::size_t kDescriptors = std::size_t{1} << 20;
// By std::atomic_ref: so many atomics are too many for a compiler to initialise.
constinit std::array<bool, kDescriptors> g_is_channel{};
constinit std::atomic<bool> g_any{false};  // there was one

std::atomic_ref<bool> mark(int descriptor) noexcept {
    return std::atomic_ref(g_is_channel[static_cast<std::size_t>(descriptor)]);
}

// Never destroyed: files are closed until the very end.
struct Table {
    std::mutex mutex;  // the last one that a thread takes; free in a forked child
    std::map<int, std::shared_ptr<Channel>> channels;
};
Table& table() {
    static Table* const instance = new Table;
    static const bool handlers =
        pthread_atfork([] { table().mutex.lock(); }, [] { table().mutex.unlock(); },
                       [] { table().mutex.unlock(); }) == 0;
    static_cast<void>(handlers);
    return *instance;
}

bool is_channel(int descriptor) noexcept {
    const auto at = static_cast<std::size_t>(descriptor);
    return at < kDescriptors && mark(descriptor).load(std::memory_order_acquire);
}

std::shared_ptr<Channel> take(int descriptor) {
    const std::lock_guard lock(table().mutex);
    mark(descriptor).store(false);
    const auto node = table().channels.extract(descriptor);
    return node ? std::move(node.mapped()) : nullptr;
}

std::shared_ptr<Channel> known_channel(int descriptor) noexcept {
    if (!is_channel(descriptor)) return nullptr;
    const std::lock_guard lock(table().mutex);
    const auto found = table().channels.find(descriptor);
    return found == table().channels.end() ? nullptr : found->second;
}

// One of these numbers that forget_channel() would not leave; -1: none.
int any_known(unsigned first, unsigned last) noexcept {
    if (!g_any.load() || first >= kDescriptors) return -1;
    const std::lock_guard lock(table().mutex);
    const auto end = table().channels.end();
    for (auto at = table().channels.lower_bound(static_cast<int>(first));
         at != end && static_cast<unsigned>(at->first) <= last; ++at)
        if (!at->second->inherited()) return at->first;
    return -1;
}

}  // namespace

int open_channel() noexcept try {
    Manager::instance();  // from here on it exists
    auto channel = std::make_shared<Channel>();
    const int descriptor = channel->descriptor();
    if (static_cast<std::size_t>(descriptor) >= kDescriptors)
        throw Error(Errc::device_error, "connection manager", "a descriptor beyond 1048575",
                    "close files");
    forget_channel(descriptor);  // another file had the number before
    const std::lock_guard lock(table().mutex);
    table().channels[descriptor] = std::move(channel);
    g_any.store(true);
    mark(descriptor).store(true, std::memory_order_release);
    return descriptor;
} catch (const Error& error) {
    log::error("{}", error.what());
    errno = EMFILE;
    return -1;
} catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return -1;
}

std::shared_ptr<Channel> find_channel(int descriptor) noexcept {
    auto channel = known_channel(descriptor);
    if (channel == nullptr || channel->is(descriptor)) return channel;
    forget_channel(descriptor);
    return nullptr;
}

int execute(const std::shared_ptr<Channel>& channel, std::span<const std::byte> command) {
    // As write() is.
    pthread_testcancel();
    return channel->inherited() ? EIO : Manager::instance().execute(channel, command);
}

void forget_channel(int descriptor) noexcept {
    const auto known = known_channel(descriptor);
    if (known == nullptr || known->inherited()) return;
    const auto channel = take(descriptor);
    if (channel != nullptr) Manager::instance().close(*channel);
}

void forget_channels(unsigned first, unsigned last) noexcept {
    for (int known = any_known(first, last); known >= 0; known = any_known(first, last))
        forget_channel(known);
}

}  // namespace verbatim::rdmacm
