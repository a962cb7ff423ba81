// Opening and ending of datagram wires.
#include "datagram_setup.hpp"

namespace verbatim::softnic {

// Notices come inside the endpoint's gate: of a thread that drives another queue pair, perhaps.
void DatagramSetup::open(const std::array<std::uint8_t, 16>& address) {
    if (wire_ != nullptr) return;  // the change of state failed behind it
    const auto tell = [](const void* self) noexcept {
        const auto& setup = *static_cast<const DatagramSetup*>(self);
        setup.attention_.heat();
        setup.bell_.call(setup.bell_.context);
    };
    wire_ = std::make_unique<DatagramWire>(
        wires_.endpoints.at(wires_.packets, wires_.streams.thread(), address),
        shared_.traits.number, wires_.packets, InboxNotice{tell, this});
    shared_.wire.store(wire_.get(), std::memory_order_release);
}

void DatagramSetup::forget() noexcept {
    shared_.wire.store(nullptr, std::memory_order_release);
    wire_ = nullptr;
}

}  // namespace verbatim::softnic
