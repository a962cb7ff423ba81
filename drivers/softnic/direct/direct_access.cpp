// Opening and closing a span of the peer's memory.
#include "direct_access.hpp"

namespace verbatim::softnic {

// A span that is open keeps the gate: so none is opened within it.
std::byte* DirectAccess::open(std::uint64_t address, std::size_t bytes,
                              std::uint32_t remote_key) noexcept {
    if (inherited() || bytes == 0 || bytes > kMostInside || !gate_.try_enter()) return nullptr;
    memory_ = requester_.memory_now();
    std::byte* const place =
        memory_ == nullptr ? nullptr : memory_->open(remote_key, address, bytes);
    if (place != nullptr)
        thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    else
        leave();
    return place;
}

// The access word is the parent's after fork().
void DirectAccess::close() noexcept {
    if (thread_.load(std::memory_order_relaxed) != std::this_thread::get_id()) return;
    thread_.store({}, std::memory_order_relaxed);
    if (!inherited()) memory_->close();
    leave();
}

void DirectAccess::leave() noexcept {
    if (!gate_.leave_or_drop()) rest_.run(rest_.context);
}

}  // namespace verbatim::softnic
