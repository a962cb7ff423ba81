// The turns of a queue pair's engines: posts and polls take them, and a turn that leaves work
// behind calls attention to it. Threads: any, but for what says otherwise.
#pragma once

#include <cstdint>

#include "absence/absence.hpp"
#include "queue_pair/queue_pair_attention.hpp"
#include "queue_pair_engines.hpp"

namespace verbatim::softnic {

class QueuePairTurns {
  public:
    QueuePairTurns(DeviceCore& core, QueuePair& owner, QueuePairParts& parts) noexcept;
    QueuePairTurns(const QueuePairTurns&) = delete;
    QueuePairTurns& operator=(const QueuePairTurns&) = delete;

    QueuePairEngines& engines() noexcept { return engines_; }
    const QueuePairEngines& engines() const noexcept { return engines_; }
    QueuePairAttention& attention() noexcept { return attention_; }
    Absence& absence() noexcept { return absence_; }
    CompletionQueue& send_completions() noexcept { return *send_completions_; }
    CompletionQueue& receive_completions() noexcept { return *receive_completions_; }
    // Rung by the data path.
    mlx5::DoorbellHook hook() noexcept;

    // Control path: rounds look at it from now on. Throws std::bad_alloc.
    void attach();

    // Data path, from completion queues: drives both sides if there is something to do. Cools after
    // `patience` looks in vain. A quick look may leave out what waits for a time, where nothing
    // came lately; not the one before a sleep.
    enum class Look : std::uint8_t { quick, whole };
    void progress(Look look = Look::quick, std::uint32_t patience = kPatient) noexcept;
    // After a mark was taken, and a turn: wakes the engine thread if more is to be done. Under the
    // walk of a progress list.
    void ring_for_rest() const noexcept;
    // Data path: requests were posted.
    void posted() noexcept;
    // Requests may be executed, or need not be any more.
    void run_send() noexcept;
    // Both sides, unconditionally. The engine thread is that of the tcp port.
    enum class Looker : std::uint8_t { poller, engine_thread };
    void execute(Looker looker = Looker::poller) noexcept;
    // Stopped: the requester alone, which flushes before any receive is.
    void run_stopped_requester() noexcept;
    // After engines().go_on() was false.
    void catch_up() noexcept;

    // From a completion queue that is armed: leaves its sleep word where the peer looks.
    void tell_sleep(const CompletionQueue& queue) noexcept;
    // Control thread: raises the events of sleeping threads.
    void wake() noexcept;

  private:
    static constexpr std::uint32_t kPatient = 1024;
    enum class Relayed : std::uint8_t { no_stream, nothing, looked, worked };
    Relayed relay(Looker looker) noexcept;
    enum class Due : std::uint8_t { all, what_came };
    bool work(Due due = Due::all) noexcept;
    template <class Engine>
    void run_inside(Gate& gate, Engine& engine) noexcept;
    void leave_to_others(Gate& gate) noexcept;
    void admit_arrivals() noexcept;
    void run_receive() noexcept;
    void cool() noexcept;

    DeviceCore& core_;
    CompletionQueue* send_completions_;
    CompletionQueue* receive_completions_;
    ProgressList* progress_;
    QueuePairEngines engines_;
    QueuePairAttention attention_;
    Absence absence_;
};

}  // namespace verbatim::softnic
