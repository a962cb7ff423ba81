// Quick requests are the most frequent ones by far: a write of one inline segment, and a read into
// one element, of mapped memory and with nothing outstanding before them. Everything else, every
// error too, is left to Requester::execute_next(), which starts afresh. Made for one turn of the
// requester. Threads: the one inside the send gate.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <verbatim/driver/queue_view.hpp>
#include <verbatim/mlx5/formats.hpp>
#include <verbatim/mlx5/work_request.hpp>

#include "../ports/shm_port.hpp"
#include "completion_order.hpp"
#include "request_counts.hpp"
#include "request_elements.hpp"

namespace verbatim::softnic {

class QuickRequests {
  public:
    // The requester's.
    struct Parts {
        const mlx5::QueuePairView& view;
        ShmPort& port;
        RequestElements& elements;
        CompletionOrder& order;
        RequestCounts& counts;
        std::atomic<std::uint16_t>& head;
    };
    explicit QuickRequests(const Parts& parts) noexcept
        : send_buffer_(parts.view.send_buffer),
          send_blocks_(parts.view.send_blocks),
          parts_(parts) {}

    // What the peer's queue pair takes, whatever its keys say.
    struct Taken {
        bool writes = false, reads = false;
    };
    static Taken what_peer_takes(const QueuePairShared& shared) noexcept {
        return {shared.connection.outgoing.allows(Access::remote_write),
                shared.connection.outgoing.allows(Access::remote_read) &&
                    shared.traits.result_in_entry == 0};
    }

    // Executes the request at the head. False: it is none of these, and nothing was done. Measured
    // (one core of a shared 2-core machine, -O3): a write of 8 bytes takes 31 ns with its post, and
    // 43 ns by execute_next().
    bool execute(std::uint16_t end, Taken may) noexcept {
        const std::uint16_t head = parts_.head.load(std::memory_order_relaxed);
        const auto posted = static_cast<std::uint16_t>(end - head);
        const std::uint32_t slot = head & (send_blocks_ - 1);
        const std::byte* const wqe = send_buffer_ + std::size_t{slot} * mlx5::kBlockBytes;
        mlx5::ControlSegment control;
        mlx5::RemoteAddressSegment target;
        std::memcpy(&control, wqe, sizeof control);
        std::memcpy(&target, wqe + sizeof control, sizeof target);
        const std::uint32_t units = mlx5::units_of(control);
        const std::uint32_t blocks = mlx5::blocks_for_units(units);
        if (slot + blocks > send_blocks_ || blocks > posted || posted > send_blocks_ ||
            parts_.order.outstanding() != 0)
            return false;
        const std::byte* const data = wqe + sizeof control + sizeof target;
        ExecutedRequest done;
        done.opcode = mlx5::opcode_of(control);
        const auto opcode = static_cast<mlx5::Opcode>(done.opcode);
        if (!(opcode == mlx5::Opcode::write  ? may.writes && write(target, data, units)
              : opcode == mlx5::Opcode::read ? may.reads && read(target, data, units, done.bytes)
                                             : false))
            return false;
        RequestCounts::add(parts_.counts.requests, 1);
        parts_.head.store(static_cast<std::uint16_t>(head + blocks), std::memory_order_relaxed);
        if ((control.fence_completion_event & mlx5::kCompletionAlways) != 0) {
            done.index = head;
            done.signaled = true;
            parts_.order.finish(done);
        }
        return true;
    }

  private:
    static constexpr std::size_t kBeforeData =
        sizeof(mlx5::ControlSegment) + sizeof(mlx5::RemoteAddressSegment);

    // Of one inline segment.
    bool write(const mlx5::RemoteAddressSegment& to, const std::byte* data,
               std::uint32_t units) noexcept {
        mlx5::InlineHeader header;
        std::memcpy(&header, data, sizeof header);
        const std::uint32_t bytes = header.byte_count.native() ^ mlx5::kInlineFlag;
        constexpr std::size_t kPayload = kBeforeData + sizeof header;
        if (bytes == 0 || bytes > mlx5::kInlineCountMask ||
            units != (kPayload + bytes + mlx5::kUnitBytes - 1) / mlx5::kUnitBytes)
            return false;
        RemoteMemory* const memory = parts_.port.memory_now();
        if (memory == nullptr ||
            !memory->write_now(to.key.native(), to.address.native(), data + sizeof header, bytes))
            return false;
        RequestCounts::add(parts_.counts.bytes_sent, bytes);
        return true;
    }

    // Into one element.
    bool read(const mlx5::RemoteAddressSegment& from, const std::byte* data, std::uint32_t units,
              std::uint32_t& bytes) noexcept {
        constexpr std::uint32_t kUnits =
            (kBeforeData + sizeof(mlx5::DataSegment)) / mlx5::kUnitBytes;
        if (units != kUnits) return false;
        mlx5::DataSegment element;
        std::memcpy(&element, data, sizeof element);
        bytes = element.byte_count.native();
        if (bytes == 0 || bytes > kMostAtOnce) return false;
        const MemoryTouch inside(parts_.elements.access());
        std::byte* const to =
            parts_.elements.place_now(element.key.native(), element.address.native(), bytes);
        RemoteMemory* const memory = parts_.port.memory_now();
        if (to == nullptr || memory == nullptr ||
            !memory->read_now(from.key.native(), from.address.native(), to, bytes))
            return false;
        RequestCounts::add(parts_.counts.bytes_fetched, bytes);
        return true;
    }

    // Longer ones are worth a closer look.
    static constexpr std::uint32_t kMostAtOnce = 16384;
    std::byte* send_buffer_;
    std::uint32_t send_blocks_;
    Parts parts_;
};

}  // namespace verbatim::softnic
