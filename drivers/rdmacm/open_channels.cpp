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

// Small numbers, as the system hands them out.
constexpr std::size_t kDescriptors = 65536;
constinit std::array<std::atomic<bool>, kDescriptors> g_is_channel{};

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
    return at < kDescriptors && g_is_channel[at].load(std::memory_order_acquire);
}

std::shared_ptr<Channel> take(int descriptor) {
    const std::lock_guard lock(table().mutex);
    g_is_channel[static_cast<std::size_t>(descriptor)].store(false);
    const auto node = table().channels.extract(descriptor);
    return node ? std::move(node.mapped()) : nullptr;
}

}  // namespace

int open_channel() noexcept try {
    Manager::instance();  // from here on it exists
    auto channel = std::make_shared<Channel>();
    const int descriptor = channel->descriptor();
    if (static_cast<std::size_t>(descriptor) >= kDescriptors)
        throw Error(Errc::device_error, "connection manager", "a descriptor beyond 65535",
                    "close files");
    const std::lock_guard lock(table().mutex);
    table().channels[descriptor] = std::move(channel);
    g_is_channel[static_cast<std::size_t>(descriptor)].store(true, std::memory_order_release);
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
    if (!is_channel(descriptor)) return nullptr;
    const std::lock_guard lock(table().mutex);
    const auto found = table().channels.find(descriptor);
    return found == table().channels.end() ? nullptr : found->second;
}

int execute(const std::shared_ptr<Channel>& channel, std::span<const std::byte> command) noexcept {
    return channel->inherited() ? EIO : Manager::instance().execute(channel, command);
}

void forget_channel(int descriptor) noexcept {
    if (!is_channel(descriptor)) return;
    const auto channel = take(descriptor);
    if (channel != nullptr && !channel->inherited()) Manager::instance().close(*channel);
}

}  // namespace verbatim::rdmacm
