// Limits that every work queue has, and checks of the views by which devices hand over their
// queues. Cold path; any thread.
#pragma once

#include <cstdint>
#include <string>

#include <verbatim/driver/error.hpp>
#include <verbatim/driver/queue_view.hpp>

namespace verbatim::mlx5 {

// The device addresses blocks by 16-bit counters; a full queue must still differ from an empty one.
inline constexpr std::uint32_t kMaxEntries = 1U << 15;

inline std::string object_of(const QueuePairView& view) {
    return "queue pair " + std::to_string(view.number);
}
inline std::string object_of(const CompletionQueueView& view) {
    return "completion queue " + std::to_string(view.number);
}
inline std::string object_of(const SharedReceiveQueueView& view) {
    return "shared receive queue " + std::to_string(view.number);
}

// Throws Error(invalid_argument) with that cause unless it holds.
template <class View>
void require(bool holds, const View& view, const char* cause) {
    if (holds) return;
    throw Error(Errc::invalid_argument, object_of(view), cause,
                "this is a fault of the device's driver: report it");
}

inline bool aligned(const volatile void* pointer, std::uintptr_t to) noexcept {
    return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
}

}  // namespace verbatim::mlx5
