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

namespace verbatim::softnic {

inline constexpr std::uint32_t kMaxDatagramBytes = 4096;  // of payload: the largest path MTU
inline constexpr std::uint32_t kGlobalRouteBytes = 40;    // before the payload in every receive
using GlobalRoute = std::array<std::byte, kGlobalRouteBytes>;

// The way to one destination. Threads: the one inside the send gate.
struct Flow {
    enum class Way : std::uint8_t { asked_for, open, none };
    Way way = Way::asked_for;
    std::shared_ptr<Link> link;
    ChannelSender ring;
    // There is none: messages are dropped, and it is asked for again after this.
    std::chrono::steady_clock::time_point again;

    bool silent() const noexcept {
        return link->lost() || ring.receiver_state() != ReceiverState::open;
    }
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
