// Construction, and progress on empty polls.
#include "completion_queue.hpp"

namespace verbatim::softnic {

CompletionQueue::CompletionQueue(std::uint32_t entries, std::uint32_t entry_bytes,
                                 std::uint32_t number, bool parked)
    : memory_(std::in_place, entries, entry_bytes, number), view_(memory_->view()), ring_(view_) {
    if (!parked) view_.progress_hook = {progress_hook, this};
}

CompletionQueue::CompletionQueue(const mlx5::CompletionQueueView& view, const EventHook& event)
    : view_(view), ring_(view), event_(event) {}

void CompletionQueue::progress_hook(void* self) noexcept {
    static_cast<CompletionQueue*>(self)->progress();
}

}  // namespace verbatim::softnic
