// The failure of a queue pair: its cause in words, the syndrome of its first flushed request, and
// the sink of events that its owner wants to know.
#pragma once

#include <atomic>
#include <cstdint>

#include "../../softqueue/failure_text.hpp"

namespace verbatim::softnic {

// What a queue pair reports beside completions. Fatal: no completion can be written any more.
// Request and access error: the peer asked for what it may not. Last receive: of those that it had
// taken from a shared queue, after it failed. Established: a message came before the queue pair was
// made ready to send. Drained: nothing is outstanding any more since sending was paused.
enum class QueuePairEvent : std::uint8_t {
    fatal,
    request_error,
    access_error,
    last_receive,
    established,
    drained
};
// Called by the thread that found it.
struct EventSink {
    void (*call)(void* context, QueuePairEvent event) noexcept = nullptr;
    void* context = nullptr;
};

struct QueuePairFailure {
    // Of the first request flushed in the error state; none: as the engine finds. Set before that
    // state is entered.
    std::atomic<mlx5::Syndrome> first_syndrome{};
    EventSink events;
    FailureText text;

    void report(QueuePairEvent event) const noexcept {
        if (events.call != nullptr) events.call(events.context, event);
    }
};

}  // namespace verbatim::softnic
