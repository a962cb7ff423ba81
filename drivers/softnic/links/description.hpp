// What a device says of itself to programs of its user (verbatim/softnic/running.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <verbatim/driver/device.hpp>
#include <verbatim/driver/queue_view.hpp>
#include <verbatim/softnic/fault_policy.hpp>

#include "../host/descriptor.hpp"

namespace verbatim::softnic {

enum class XrcSide : std::uint8_t { none, initiator, target };

// A queue pair at one moment; its counters are read one after the other.
struct QueuePairFacts {
    std::uint32_t number = 0;
    mlx5::Transport transport = mlx5::Transport::reliable_connection;
    XrcSide xrc = XrcSide::none;
    QueuePairState state = QueuePairState::reset;
    std::optional<std::uint32_t> peer;
    std::uint64_t requests = 0, messages = 0, not_ready = 0;
    std::uint64_t bytes_sent = 0, bytes_received = 0;  // payload
    std::array<std::uint64_t, kFaultActions> faults{};
};

std::string describe(const std::string& device, std::span<const QueuePairFacts> queue_pairs);

// A sealed memory file that holds the text. Throws Error(out_of_memory).
Descriptor file_of(const std::string& text);

}  // namespace verbatim::softnic
