// The parts of a queue pair in memory of its own.
#include "queue_pair_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "shared_receive_queue.hpp"

namespace verbatim::softnic {
namespace {

CompletionQueue* completion_queue(CompletionQueueHandle* handle, const char* which) {
    auto* const queue = dynamic_cast<CompletionQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "software NIC queue pair",
                    fmt::format("{} is missing or belongs to another kind of device", which));
    return queue;
}

// Null: the queue pair has receives of its own.
SharedReceiveList* shared_receives(SharedReceiveQueueHandle* handle) {
    if (handle == nullptr) return nullptr;
    auto* const queue = dynamic_cast<SharedReceiveQueue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "software NIC queue pair",
                    "shared_receives belongs to another kind of device");
    return &queue->list();
}

}  // namespace

QueuePairParts own_parts(const QueuePairOptions& options) {
    QueuePairParts parts;
    parts.send_completions = completion_queue(options.send_completions, "send_completions");
    parts.receive_completions =
        completion_queue(options.receive_completions, "receive_completions");
    parts.shared_receives = shared_receives(options.shared_receives);
    if (parts.shared_receives != nullptr) parts.receive_index = parts.shared_receives->number();
    parts.not_ready_retries = std::min(options.not_ready_retries, QueuePairLimits::kForEver);
    parts.carries_messages = options.carries_messages;
    parts.memory = std::make_unique<QueuePairMemory>(options, 0);
    parts.view = parts.memory->view();
    return parts;
}

}  // namespace verbatim::softnic
