// One-sided writes from the context's arena into memory that the peer has lent. Threads: the
// lane's. Data path: no allocation, lock, system call or exception, but at the first use of a
// segment of the arena.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../arena/region_table.hpp"
#include "send_path.hpp"

namespace verbatim {

class OneSidedWrites {
  public:
    // `most`: bytes of one request.
    OneSidedWrites(SendPath& path, RegionTable& regions, std::uint64_t most);

    // `written`: leading bytes that were accepted. Errors: those of SendPath::post();
    // invalid_argument where the source is not in the arena.
    Errc try_write(const std::byte* from, std::size_t bytes, mlx5::RemoteMemory to,
                   std::size_t& written) noexcept;
    // would_block until every accepted write has retired.
    Errc try_flush() noexcept;

  private:
    Errc write_word(const std::byte* from, mlx5::RemoteMemory to) noexcept;
    // One request: as much of the range as gather list and device take. `bytes`: in what is wanted,
    // out what went.
    Errc write_gathered(const std::byte* from, std::size_t& bytes, mlx5::RemoteMemory to) noexcept;

    SendPath& path_;
    RegionTable& regions_;
    std::uint64_t most_;
    PreparedWrite<mlx5::PreparedWrite8> word_;
    std::uint64_t last_ = 0;  // number of the last write
};

}  // namespace verbatim
