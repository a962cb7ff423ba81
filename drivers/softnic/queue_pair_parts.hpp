// The parts that a queue pair is made of: its memory, its completion queues, and what its owner
// wants of it.
#pragma once

#include <cstdint>
#include <memory>

#include <verbatim/driver/device.hpp>

#include "../softqueue/queue_memory.hpp"
#include "../softqueue/shared_receive_list.hpp"
#include "completion_queue.hpp"
#include "queue_pair/queue_pair_state.hpp"

namespace verbatim::softnic {

class XrcDomain;

struct QueuePairParts {
    mlx5::QueuePairView view;                 // without number and hook
    std::unique_ptr<QueuePairMemory> memory;  // behind the view; null: it is the caller's
    CompletionQueue* send_completions = nullptr;
    CompletionQueue* receive_completions = nullptr;
    SharedReceiveList* shared_receives = nullptr;  // null: the queue pair has receives of its own
    ProgressList* progress = nullptr;  // null, or another one than its completion queues
    FlowRequest flow_request;          // of datagram queue pairs
    GlobalRoute route{};               // likewise: precedes what is received
    std::uint32_t max_datagram = kMaxDatagramBytes;
    EventSink events;
    std::uint32_t domain = 0;  // protection domain; another one's keys are refused
    // How much data its completions may hold: received, and read or returned by atomics.
    std::uint32_t receive_in_entry = 0, result_in_entry = 0;
    std::uint8_t not_ready_retries = QueuePairLimits::kForEver;
    bool carries_messages = true;  // else a short ring is enough
    // What completions carry as Cqe::shared_receive_index.
    std::uint32_t send_index = 0, receive_index = 0;
    // XRC: an initiator's requests name shared receive queues of its peer, a target receives for
    // those of its domain and has no queues of its own.
    bool names_queues = false;
    std::shared_ptr<XrcDomain> xrc_domain;
    // Its owner takes it through verbs' states (initialize(), receive_from(), start(), fail()), and
    // the peer's end alone is no error.
    bool follows_verbs = false;
};
// In memory of its own. Throws Error(invalid_argument | out_of_memory).
QueuePairParts own_parts(const QueuePairOptions& options);

}  // namespace verbatim::softnic
