// Turns the elements of a send queue's request into pieces of this process' memory, checked against
// their keys. Threads: the one inside the send gate.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../keys/access_sequence.hpp"
#include "../ports/memory_access.hpp"
#include "../ports/send_request.hpp"
#include "../queue_pair/queue_pair_access.hpp"

namespace verbatim::softnic {

inline constexpr std::uint64_t kMaxMessageBytes = std::uint64_t{1} << 30;

class RequestElements {
  public:
    // `access`: where revokers of this process look.
    RequestElements(const KeyTableView& keys, FailureText& failure, std::uint32_t domain,
                    QueuePairAccess& access) noexcept
        : local_(keys, failure, domain), failure_(&failure) {
        access_.bind(access.send_word(), !access.barriers());
    }

    // The bracket around everything that is done with pieces.
    AccessSequence& access() noexcept { return access_; }

    // Where [address, address + bytes) may be written to by this key. Null: collect() is to look
    // into it.
    std::byte* place_now(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) noexcept {
        return local_.place_now(key, address, bytes);
    }
    // Adds the data and inline segments from `first_unit` on.
    mlx5::Syndrome collect(const SendRequest& request, std::size_t first_unit, Access wanted,
                           PieceList& list) noexcept;
    // Whether the address is in one of them.
    bool name(const SendRequest& request, std::size_t first_unit, const void* address) noexcept;

  private:
    std::size_t collect_inline(const WqeReader& wqe, std::size_t unit, std::uint32_t bytes,
                               PieceList& list) noexcept;

    LocalMemory local_;
    FailureText* failure_;
    AccessSequence access_;
};

}  // namespace verbatim::softnic
