// One-sided requests: writes, reads and atomics between the context's arenas and memory that the
// peer has lent. Threads: the lane's. Data path: no allocation, lock, system call or exception, but
// at the first use of a segment of an arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <verbatim/core/remote_span.hpp>

#include "../arena/local_memory.hpp"
#include "../arena/region_tables.hpp"
#include "outcome_waiters.hpp"
#include "prepared_links.hpp"
#include "send_path.hpp"

namespace verbatim {

// The operands of an atomic; its opcode says which of them count.
struct AtomicOperands {
    mlx5::Opcode opcode;
    std::uint64_t compare = 0, swap_or_add = 0;
    std::uint64_t compare_mask = 0, swap_mask = 0;
};

// Operations that were accepted, and their bytes, for telemetry.
struct OneSidedCounts {
    std::uint64_t reads = 0, writes = 0, atomics = 0, bytes = 0;
    void add(mlx5::Opcode opcode, std::uint64_t more) noexcept {
        ++(opcode == mlx5::Opcode::read ? reads : opcode == mlx5::Opcode::write ? writes : atomics);
        bytes += more;
    }
};

class OneSidedRequests {
  public:
    // `most`: bytes of one request.
    OneSidedRequests(SendPath& path, RegionTables& arenas, std::uint64_t most);

    // Bytes go from local memory to the peer's (write) or back (read). `done`: leading bytes that
    // were accepted, here or by earlier calls; those behind go now. would_block: call again with
    // the same `done`. Errors: those of SendPath::post(); invalid_argument where the local memory
    // is not in an arena.
    struct Transfer {
        mlx5::Opcode opcode;
        bool signaled;  // each request gets a completion, whatever its length
        std::byte* local;
        std::size_t bytes;
        mlx5::RemoteMemory remote;
        const MemoryRegion* region = nullptr;  // that holds all of `local`; null: an arena does
    };
    Errc try_transfer(const Transfer& transfer, std::size_t& done) noexcept;
    // Reads, many under one doorbell: `done` of them, as above. invalid_argument, too: one of a
    // length that one request cannot have, or over the end of a segment.
    Errc try_read_all(std::span<const RemoteRead> reads, std::size_t& done) noexcept;
    // The same of targets that are prepared.
    Errc try_read_targets(std::span<const PreparedTarget> reads, std::size_t& done) noexcept;
    // `bytes` at `local` and at `remote` as the target of one request. Errors: as above.
    Errc prepare(const RemoteExtent& remote, const std::byte* local,
                 PreparedTarget& target) const noexcept;
    // One that is prepared, with a completion. Errors: those of SendPath::post().
    template <mlx5::Opcode kOpcode, class Payload, class Remote, class Value>
    [[gnu::always_inline]] Errc try_prepared(mlx5::Prepared<kOpcode, Payload>& request,
                                             const Remote& remote, const Value& value,
                                             std::uint32_t bytes) noexcept {
        const Errc error = path_.post_signaled(request, remote, value);
        last_ = path_.accepted();
        if (error == Errc::ok) [[likely]]
            counts_.add(kOpcode, bytes);
        return error;
    }
    const OneSidedCounts& counts() const noexcept { return counts_; }
    // `before`: 8 bytes of local memory that get the word as it was.
    Errc try_atomic(const AtomicOperands& operands, std::byte* before,
                    mlx5::RemoteMemory word) noexcept;
    // would_block until every accepted request has retired.
    Errc try_flush() noexcept;

    // Of its operations.
    OutcomeWaiters& waiters() noexcept { return waiters_; }
    PreparedLinks& prepared() noexcept { return prepared_; }
    // The connection goes; all requests have retired.
    void drop_prepared() noexcept {
        prepared_.end_all();
        prepared_.drop_all([&](std::uint64_t number) {
            const Errc error = outcome(number);
            return error == Errc::would_block ? Errc::flushed : error;
        });
    }
    mlx5::SendQueue& queue() noexcept { return path_.queue(); }
    // Number of the last request, for outcome().
    std::uint64_t last() const noexcept { return last_; }
    // would_block until that request has retired; then ok, or why it failed.
    Errc outcome(std::uint64_t request) const noexcept { return path_.user().outcome(request); }

  private:
    // Reads that are translated together.
    static constexpr std::size_t kMostReads = 32;

    Errc write_word(const Transfer& transfer) noexcept;
    // One request: as much of the rest as gather list and device take, which goes.
    Errc post_some(const Transfer& rest, std::size_t& went) noexcept;
    RegionTable& table_of(const std::byte* at) const noexcept { return arenas_.of(at); }
    LocalMemory memory_of(const Transfer& transfer) const noexcept {
        return transfer.region != nullptr ? LocalMemory(*transfer.region)
                                          : LocalMemory(table_of(transfer.local));
    }

    SendPath& path_;
    RegionTables& arenas_;  // that local memory may lie in
    std::uint64_t most_;
    PreparedPost<mlx5::PreparedWrite8> word_;
    PreparedPost<mlx5::Prepared<mlx5::Opcode::read, mlx5::Gather<1>>> read_;  // of lists
    OneSidedCounts counts_;
    std::uint64_t last_ = 0;  // number of the last request
    OutcomeWaiters waiters_;
    PreparedLinks prepared_;
};

}  // namespace verbatim
