// The set-up of a datagram queue pair's wire: packets to and from any device, from the state in
// which it receives on. Control path, one caller at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "queue_pair_attention.hpp"
#include "wire_services.hpp"

namespace verbatim::softnic {

class DatagramSetup {
  public:
    // `bell`: wakes the threads that drive queue pairs. All outlive this.
    DatagramSetup(WireServices& wires, QueuePairShared& shared, QueuePairAttention& attention,
                  const InboxNotice& bell) noexcept
        : wires_(wires), shared_(shared), attention_(attention), bell_(bell) {}
    DatagramSetup(const DatagramSetup&) = delete;
    DatagramSetup& operator=(const DatagramSetup&) = delete;

    // Packets come to this address, and go from it. Again: nothing. Throws Error(device_error): the
    // RoCE port is taken; std::bad_alloc.
    void open(const std::array<std::uint8_t, 16>& address);
    // Before the first message is sent.
    void begin_sending(std::uint32_t first_sequence) noexcept {
        if (wire_ != nullptr) wire_->set_sequence(first_sequence);
    }
    // None comes any more, and nobody is told.
    void close() noexcept {
        if (wire_ != nullptr) wire_->close();
    }
    // After close(), when no round comes to the queue pair, inside both gates.
    void forget() noexcept;

  private:
    WireServices& wires_;
    QueuePairShared& shared_;
    QueuePairAttention& attention_;
    const InboxNotice bell_;
    std::unique_ptr<DatagramWire> wire_;  // null: none
};

}  // namespace verbatim::softnic
