// A wire carries the requests of two connected queue pairs, and their answers, through a socket: as
// a stream of frames (stream.hpp), or as packets (ports/roce). It has a gate; one thread at a time
// is inside, others leave a mark and go on. No member blocks, allocates or throws.
#pragma once

#include <atomic>
#include <chrono>

#include <verbatim/softnic/softnic.hpp>

#include "../../host/descriptor.hpp"
#include "peer_words.hpp"

namespace verbatim::softnic {

class Wire {
  public:
    Wire() = default;
    virtual ~Wire() = default;
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    // Control path, once: the socket to the peer, which was dialled and is to welcome this side, or
    // was accepted; none: it has one.
    enum class Origin : std::uint8_t { dialled, accepted };
    virtual void attach(Descriptor socket, Origin origin) noexcept = 0;
    bool attached() const noexcept { return marks_.attached.load(std::memory_order_acquire); }
    virtual int socket() const noexcept = 0;  // once it is attached
    // No stream came in time.
    virtual void expire() noexcept {}
    // Receives what has come, and sends. Unchanged: nothing came, and soon another look does the
    // rest. Last: nothing more seemed to wait behind what came. More: there may be more, or
    // something waits for the responder to run. Any thread.
    enum class Found : std::uint8_t { unchanged, nothing, last, more };
    virtual Found progress() noexcept = 0;
    // A thread is inside. Any thread.
    virtual bool occupied() const noexcept = 0;
    // Sends what was committed, and the responder's words. Any thread.
    virtual void flush() noexcept = 0;
    // After the responder ran behind progress(): where it is armed, and nobody may look again, its
    // words are sent, by the thread inside if there is one. Not armed, another poll says them, or
    // the engine thread: within a tick, or once it has armed. That one stores `armed` before it
    // looks for words, and this thread has its words first. Any thread.
    virtual void settle() noexcept {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (marks_.armed.load()) flush();
    }
    // The engine thread's, about once a second, if that is wanted.
    virtual bool beats() const noexcept { return false; }
    virtual void beat() noexcept {}
    // Control path, at any time: how long what is sent to a foreign peer is sent again in vain; 0,
    // as at first: for ever.
    virtual void set_patience(std::chrono::nanoseconds) noexcept {}
    // Any thread.
    virtual PacketCounts packets() const noexcept { return {}; }
    // Changes where something came that the peer's responder says. Any thread.
    std::uint32_t answers() const noexcept {
        return marks_.answers.load(std::memory_order_relaxed);
    }
    // The requester's, inside the send gate.
    void give_up() noexcept { marks_.gives_up.store(true, std::memory_order_release); }
    // Any thread.
    const PeerWords& words() const noexcept { return words_; }
    // Bytes that the socket did not take, or frames that the responder's ring did not take. Any
    // thread.
    bool unfinished() const noexcept { return marks_.unfinished.load(std::memory_order_relaxed); }
    // A time runs, after which somebody is to look. Any thread.
    bool timed() const noexcept { return marks_.timed.load(std::memory_order_relaxed); }
    // Nobody looks again before the socket is ready: what is to be said is said at once. The thread
    // that sets it flushes afterwards. Any thread.
    std::atomic<bool>& armed() noexcept { return marks_.armed; }
    // A message of the peer waits for a receive. Any thread.
    bool waits() const noexcept { return marks_.waits.load(std::memory_order_relaxed); }

  protected:
    // Looks in vain after which what is done is acknowledged: a program that looks once more before
    // it answers takes the acknowledgement along with its answer.
    static constexpr std::uint32_t kMostLooks = 2;
    // After those, one look in so many does more than to receive.
    static constexpr std::uint32_t kWholeLooks = 4;
    static bool is_whole(std::uint32_t looks) noexcept {
        return looks <= kMostLooks || looks % kWholeLooks == 0;
    }

    // Inside the gate.
    void note_answer() noexcept { marks_.answers.store(answers() + 1, std::memory_order_relaxed); }

    struct {
        std::atomic<bool> attached{false}, gives_up{false}, unfinished{false}, waits{false};
        std::atomic<bool> armed{false}, timed{false};
        std::atomic<std::uint32_t> answers{0};
    } marks_;          // for any thread
    PeerWords words_;  // written inside the gate
};

}  // namespace verbatim::softnic
