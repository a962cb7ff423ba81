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

#include "channel.hpp"
#include "link.hpp"
#include "pieces.hpp"

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

// The rings of those who send here: a list that only grows until the queue pair is reset, so that
// readers need no lock. One sender that comes again gets a new ring, and its old one is closed.
class DatagramSources {
  public:
    struct Source {
        Nonce nonce{};
        std::uint32_t number = 0;
        ChannelReceiver ring;
        bool replaced = false;  // the receive gate's
        Source* next = nullptr;
    };

    DatagramSources() = default;
    DatagramSources(const DatagramSources&) = delete;
    DatagramSources& operator=(const DatagramSources&) = delete;
    ~DatagramSources() { clear(); }

    // Control path, receive gate closed.
    Source& add(const Nonce& nonce, std::uint32_t number, ChannelReceiver ring);
    void clear() noexcept;

    // Any thread, as long as nothing is cleared.
    bool pending() const noexcept {
        for (const Source* source = first(); source != nullptr; source = source->next)
            if (source->ring.pending()) return true;
        return false;
    }
    // Any thread.
    void set_state(ReceiverState state) noexcept {
        for (Source* source = first(); source != nullptr; source = source->next)
            source->ring.set_state(state);
    }
    Source* first() const noexcept { return first_.load(std::memory_order_acquire); }

  private:
    std::atomic<Source*> first_{nullptr};
};

}  // namespace verbatim::softnic
