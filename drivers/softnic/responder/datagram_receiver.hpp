// The receiver of datagrams: what does not fit, or finds no receive, is dropped, and nobody learns
// of it. Threads: the one inside the receive gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "received_message.hpp"

namespace verbatim::softnic {

// Since the queue pair was made. One writer at a time; read by any thread.
struct ReceiveCounts {
    std::atomic<std::uint64_t> messages{0}, bytes{0};

    void add_message(std::uint64_t payload) noexcept {
        messages.store(messages.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        bytes.store(bytes.load(std::memory_order_relaxed) + payload, std::memory_order_relaxed);
    }
};

class DatagramReceiver {
  public:
    explicit DatagramReceiver(QueuePairShared& shared) noexcept : shared_(&shared) {}

    // Delivers what has arrived from each source and over the wire, a bounded number of messages.
    void run(ReceiveEntries& entries, ReceivedMessage& message, ReceiveCounts& counts) noexcept;

  private:
    // `route`: by which it came.
    struct Datagram {
        std::uint32_t sender;
        const GlobalRoute& route;
        RecordHeader record;
        const std::byte* payload;
    };
    void run_wire(DatagramWire& wire, ReceiveEntries& entries, ReceivedMessage& message,
                  ReceiveCounts& counts) noexcept;
    bool deliver(ReceiveEntries& entries, ReceivedMessage& message,
                 const Datagram& datagram) noexcept;
    static bool take(ReceiveEntries& entries) noexcept;

    QueuePairShared* shared_;
};

}  // namespace verbatim::softnic
