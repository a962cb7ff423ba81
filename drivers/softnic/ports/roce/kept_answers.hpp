// The responses of a responder, kept after they were sent: a question that comes again is answered
// again from here, and never executed again. Older ones make room for later ones. Owner: the flow.
// Threads: the one inside its gate.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "../tcp/byte_ring.hpp"
#include "packet_output.hpp"
#include "packets/sequence.hpp"

namespace verbatim::softnic {

class KeptAnswers {
  public:
    // More than a requester has on its way at once.
    static constexpr std::size_t kBytes = std::size_t{256} << 10, kAnswersKept = 1024;

    KeptAnswers() : ring_(kBytes) {}  // throws std::bad_alloc

    // A response to the packet with this number, later than all before; then its bytes.
    void begin(std::uint64_t number, PacketOpcode opcode, std::size_t bytes) noexcept;
    void add(const void* from, std::size_t bytes) noexcept {
        ring_.put(written_, from, bytes);
        written_ += bytes;
    }
    // The number of the packet that the latest response is to, or 0.
    std::uint64_t newest() const noexcept { return end_ == 0 ? 0 : answer(end_ - 1).number; }
    // A response of before that begins with this number, and is not whole here: it made room, or
    // begins within another one.
    bool lacks(std::uint64_t number) const noexcept;
    // Those to packets from this number on are sent (again).
    void repeat(std::uint64_t number) noexcept;
    // Sends what is unsent. Returns the last number that was sent, or 0.
    std::uint64_t send(PacketOutput& output, const SequenceSpace& space) noexcept;

  private:
    struct Answer {
        std::uint64_t number = 0, at = 0;
        std::uint32_t bytes = 0;
        PacketOpcode opcode{};
    };
    const Answer& answer(std::uint64_t index) const noexcept { return list_[index % kAnswersKept]; }

    ByteRing ring_;
    std::uint64_t written_ = 0;
    std::uint64_t first_ = 0, next_ = 0, end_ = 0;  // kept, unsent, of all
    std::array<Answer, kAnswersKept> list_{};
};

}  // namespace verbatim::softnic
