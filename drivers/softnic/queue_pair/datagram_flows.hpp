// What a datagram queue pair has instead of one peer: a ring into each queue pair that it sends to,
// and a ring of its own for each that sends to it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "../keys/pieces.hpp"
#include "../links/link.hpp"
#include "../rings/channel.hpp"
#include "../rings/progress_list.hpp"

namespace verbatim::softnic {

inline constexpr std::uint32_t kMaxDatagramBytes = 4096;  // of payload: the largest path MTU
inline constexpr std::uint32_t kGlobalRouteBytes = 40;    // before the payload in every receive
using GlobalRoute = std::array<std::byte, kGlobalRouteBytes>;

// The way to one destination. Messages wait while it is looked for: a complete one must arrive even
// if its sender ends then. They wait once only for a peer that is there and does not answer.
// Threads: the one inside the send gate.
class Flow {
  public:
    // The way is to be looked for: it was never, or what was found is gone.
    bool must_ask() const noexcept;
    void ask() noexcept;
    // Takes a message: sends or drops it. False: it must wait.
    bool take(const RecordHeader& record, const PieceList& message) noexcept;
    // The answers. Absent: no such queue pair receives just now; the next message asks again.
    void open(std::shared_ptr<Link> link, ChannelSender ring) noexcept;
    void refuse(bool absent) noexcept;
    // Nothing is sent here any more: the receiver forgets the ring when it is empty.
    void close() noexcept {
        if (ring_) ring_.give_up();
    }

  private:
    using Clock = std::chrono::steady_clock;
    enum class Way : std::uint8_t { unknown, asked_for, open, none };

    bool silent() const noexcept {
        return link_->lost() || ring_.receiver_state() != ReceiverState::open;
    }
    bool send(const RecordHeader& record, const PieceList& message) noexcept;
    bool is_stuck() noexcept;

    Way way_ = Way::unknown;
    bool patient_ = true;  // messages wait for the answer
    bool waited_ = false;  // one does, or did until just now
    std::shared_ptr<Link> link_;
    ChannelSender ring_;
    Clock::time_point again_;  // not before is it asked for again
    // The ring is full, since then with so much taken from it.
    Clock::time_point full_since_;
    std::uint64_t taken_then_ = 0;
    bool full_ = false;
};
using Flows = std::map<std::uint32_t, Flow>;  // by queue pair number

// Finds the way to a queue pair in the background; calls add_flow() or refuse_flow() then. Called
// inside the send gate: must not wait for it.
struct FlowRequest {
    void (*call)(void* context, std::uint32_t number) noexcept = nullptr;
    void* context = nullptr;
};

// How long those who sweep wait for polls.
inline constexpr std::chrono::milliseconds kSweepTime{20};

// The rings of senders: a list that one thread changes while others read it. Readers outside the
// receive gate are counted, and what leaves the list is freed when there are none. One sender that
// comes again gets a new ring, and its old one is closed.
class DatagramSources {
  public:
    // All but `broken` and `next` are the receive gate's.
    struct Source {
        PeerSession sender;
        std::uint32_t number = 0;
        ChannelReceiver ring;
        bool replaced = false;
        bool ended = false;               // with its process
        std::atomic<bool> broken{false};  // its words contradict themselves
        std::atomic<Source*> next{nullptr};
        Source* next_removed = nullptr;
        Leaving leaving;

        bool pending() const noexcept { return ring.pending() && !broken.load(); }
        // Nothing comes from it any more.
        bool finished() const noexcept {
            return (replaced || ended || ring.given_up() || broken.load()) && !pending();
        }
    };

    DatagramSources() = default;
    DatagramSources(const DatagramSources&) = delete;
    DatagramSources& operator=(const DatagramSources&) = delete;
    ~DatagramSources() { clear(); }

    // Of one queue pair: each holds memory.
    static constexpr std::size_t kMost = 4096;

    // Control path, receive gate closed.
    std::size_t size() const noexcept;
    Source& add(const PeerSession& sender, std::uint32_t number, ChannelReceiver ring);
    // Likewise: the session's process ended, or needs this device no more.
    void end(std::uint64_t session) noexcept;
    // Likewise: frees what is finished, and what `let_go` says true of. Waits for readers, who wait
    // for nobody.
    template <class LetGo>
    void sweep(LetGo&& let_go) noexcept {
        remove_finished();
        for (Source** place = &removed_; *place != nullptr;) {
            Source* const source = *place;
            if (!let_go(*source)) {
                place = &source->next_removed;
                continue;
            }
            *place = source->next_removed;
            delete source;
        }
    }
    // Likewise: until clear() nothing is added, ended or swept.
    void freeze() noexcept { frozen_ = true; }
    bool frozen() const noexcept { return frozen_; }
    // Between the two: each one that is not freed, whether it is in the list or not.
    template <class Function>
    void for_each(Function&& function) noexcept {
        for (Source* source = first(); source != nullptr; source = source->next) function(*source);
        for (Source* source = removed_; source != nullptr; source = source->next_removed)
            function(*source);
    }
    // Likewise, with no readers.
    void clear() noexcept;

    // Any thread, as long as nothing is cleared.
    bool pending() const noexcept {
        if (first() == nullptr) return false;
        const Reading here(readers_);
        for (const Source* source = first(); source != nullptr; source = source->next)
            if (source->pending()) return true;
        return false;
    }
    void set_state(ReceiverState state) noexcept {
        const Reading here(readers_);
        for (Source* source = first(); source != nullptr; source = source->next)
            source->ring.set_state(state);
    }
    void set_listens(bool listens) noexcept {
        const Reading here(readers_);
        for (Source* source = first(); source != nullptr; source = source->next)
            source->ring.set_listens(listens);
    }
    // Receive gate.
    Source* first() const noexcept { return first_.load(); }

  private:
    // Sequentially consistent, as is each change of the list: either the reader is counted before
    // the list's owner looks, or it reads the list without what was removed.
    class Reading {
      public:
        explicit Reading(std::atomic<std::uint32_t>& readers) noexcept : readers_(readers) {
            readers_.fetch_add(1);
        }
        ~Reading() { readers_.fetch_sub(1); }
        Reading(const Reading&) = delete;
        Reading& operator=(const Reading&) = delete;

      private:
        std::atomic<std::uint32_t>& readers_;
    };

    void remove_finished() noexcept;

    std::atomic<Source*> first_{nullptr};
    Source* removed_ = nullptr;  // from the list, and not freed
    bool frozen_ = false;
    const std::uint64_t generation_ = fork_generation();
    mutable std::atomic<std::uint32_t> readers_{0};
};

}  // namespace verbatim::softnic
