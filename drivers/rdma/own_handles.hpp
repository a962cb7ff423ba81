// Handles that a program hands back are of the abstract device: these find out whether they are of
// the kind that is needed here. Control path; any thread.
#pragma once

#include <infiniband/verbs.h>

#include <string>

#include <fmt/format.h>

#include <verbatim/driver/device.hpp>

#include "queues.hpp"

namespace verbatim::rdma {

// Throws Error(invalid_argument): it is missing or of another kind.
template <class Queue>
Queue& own_completion_queue(CompletionQueueHandle* handle, const char* which) {
    auto* const queue = dynamic_cast<Queue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "RDMA queue pair",
                    fmt::format("{} is missing or belongs to another kind of device", which),
                    "create it on the device of the queue pair");
    return *queue;
}

// Null: the queue pair has receives of its own. Throws Error(invalid_argument).
template <class Queue>
ibv_srq* own_shared_receives(SharedReceiveQueueHandle* handle) {
    if (handle == nullptr) return nullptr;
    auto* const queue = dynamic_cast<Queue*>(handle);
    if (queue == nullptr)
        throw Error(Errc::invalid_argument, "RDMA queue pair",
                    "shared_receives belongs to another kind of device",
                    "create it on the device of the queue pair");
    return queue->get();
}

// Null: completions raise no events. `object` names the queue in the error. Throws
// Error(invalid_argument).
inline ibv_comp_channel* own_channel(CompletionChannelHandle* handle, const std::string& object) {
    if (handle == nullptr) return nullptr;
    auto* const channel = dynamic_cast<CompletionChannel*>(handle);
    if (channel == nullptr)
        throw Error(Errc::invalid_argument, object, "the channel belongs to another kind of device",
                    "create it on the device of the queue");
    return channel->get();
}

}  // namespace verbatim::rdma
