// A request of a send queue while it is executed, and what is left of it until its completion is
// written.
#pragma once

#include <cstdint>

#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "../../softqueue/wqe_reader.hpp"
#include "port.hpp"

namespace verbatim::softnic {

// An executed request whose completion is not written yet.
struct ExecutedRequest {
    Ticket ticket = 0;  // 0, or whose acknowledgement it waits for
    std::uint32_t bytes = 0;
    std::uint16_t index = 0;
    std::uint8_t opcode = 0;
    bool signaled = false;
    mlx5::Syndrome syndrome = kNoSyndrome;
    std::uint8_t result_unit = 0;  // where the elements for the peer's result start, 0: none
    bool in_entry = false;         // what it returns goes into its completion
};

struct SendRequest {
    SendRequest(const mlx5::QueuePairView& view, std::uint16_t index) noexcept
        : wqe(view, index), control(wqe.read<mlx5::ControlSegment>(0)) {
        result.index = index;
        result.opcode = mlx5::opcode_of(control);
        result.signaled = (control.fence_completion_event & mlx5::kCompletionAlways) != 0;
    }
    mlx5::Opcode opcode() const noexcept { return static_cast<mlx5::Opcode>(result.opcode); }
    std::uint32_t units() const noexcept { return mlx5::units_of(control); }
    bool solicited() const noexcept {
        return (control.fence_completion_event & mlx5::kSolicited) != 0;
    }

    WqeReader wqe;
    mlx5::ControlSegment control;
    ExecutedRequest result;
    std::uint64_t sent = 0;  // bytes of its payload for the peer
};

}  // namespace verbatim::softnic
