// A revocation by a request of an engine, which does not wait: the request stays where it is until
// those who were inside have left. Threads: the one inside the engine's gate.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "key_table.hpp"
#include "revocation.hpp"

namespace verbatim::softnic {

class PendingRevocation {
  public:
    bool begun() const noexcept { return revocation_.has_value(); }
    // A key that serves this queue pair was taken away, 0: all of the table's.
    KeyUpdate begin(KeyTable& keys, std::uint32_t queue_pair, FailureText& failure) noexcept {
        revocation_.emplace(keys.accesses(), queue_pair);
        until_ = std::chrono::steady_clock::now() + keys.accesses().patience();
        return look(failure);
    }
    // Done: nobody is inside any more. Refused: a process does not leave in time, the request
    // fails.
    KeyUpdate look(FailureText& failure) noexcept {
        const bool settled = revocation_->settled();
        if (!settled && std::chrono::steady_clock::now() < until_) return KeyUpdate::busy;
        if (!settled) {
            revocation_->give_up();
            failure.set("a process that is stopped in the middle of a copy uses the key still");
        }
        revocation_.reset();
        return settled ? KeyUpdate::done : KeyUpdate::refused;
    }
    void reset() noexcept { revocation_.reset(); }

  private:
    std::optional<Revocation> revocation_;
    std::chrono::steady_clock::time_point until_;
};

}  // namespace verbatim::softnic
