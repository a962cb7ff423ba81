// A lent pull reads bytes that the peer lends: straight into memory of an arena, and elsewhere
// through a buffer of one. Threads: the lane's. Data path, but for the buffer, which is made at its
// first use.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <verbatim/core/arena.hpp>
#include <verbatim/core/one_sided.hpp>

#include "../connection/waiting.hpp"
#include "lent_offer.hpp"

namespace verbatim {

class LentPull {
  public:
    static constexpr std::size_t kBuffer = std::size_t{128} << 10;

    explicit LentPull(Connection& connection) noexcept
        : impl_(LayerAccess::impl_of(connection)),
          one_sided_(connection),
          arena_(connection.receive_arena_ptr()) {}
    ~LentPull() { stop(); }
    LentPull(const LentPull&) = delete;
    LentPull& operator=(const LentPull&) = delete;

    // The next bytes of `offer` shall go `into`, which is no longer than what is left of it. Both
    // are the pull's until advance() says ok, or stop().
    void start(LentOffer& offer, std::span<std::byte> into) noexcept;
    bool is_under_way() const noexcept { return offer_ != nullptr; }
    // would_block: poll, and call again. Errors: out_of_memory, and the connection's end.
    Errc advance() noexcept;
    // Waits until nothing is read any more, and forgets the rest.
    void stop() noexcept;
    // Its buffer, to read into. Empty: out of memory.
    std::span<std::byte> buffer() noexcept;

  private:
    struct Free {
        Arena* arena;
        void operator()(std::byte* buffer) const noexcept {
            arena->deallocate(buffer, kBuffer, alignof(std::max_align_t));
        }
    };
    Errc post() noexcept;
    void take() noexcept;
    void await_read() noexcept;

    Connection::Impl& impl_;
    OneSided one_sided_;
    std::shared_ptr<Arena> arena_;
    std::unique_ptr<std::byte, Free> buffer_;
    LentOffer* offer_ = nullptr;
    std::span<std::byte> into_;  // what is left of it
    bool is_direct_ = false;     // it lies in an arena
    // The read under way, or that waits for room.
    std::span<std::byte> local_;
    Operation operation_;
    bool is_posted_ = false;
};

}  // namespace verbatim
