// The identifiers of this process by handle. Threads: under the manager's lock.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "channel.hpp"
#include "identifier.hpp"
#include "watcher.hpp"

namespace verbatim::rdmacm {

class IdentifierTable {
  public:
    // `watcher`: looks after the sockets of identifiers; it must stay.
    explicit IdentifierTable(Watcher& watcher) : watcher_(watcher) {}

    // Null: the channel has none of that number.
    Identifier* find(const std::shared_ptr<Channel>& channel, std::uint32_t handle) noexcept;
    // Null: there is none of that number.
    Identifier* find(std::uint32_t handle) noexcept;
    // One that is there.
    Identifier& at(std::uint32_t handle) { return identifiers_.at(handle); }
    Identifier& add(const std::shared_ptr<Channel>& channel, PortSpace space,
                    std::uint8_t queue_pair_type);
    // Ends the identifier, if it is there, and the requests that the program has not seen.
    void end(std::uint32_t handle) noexcept;
    void end_all_of(const Channel& channel) noexcept;
    std::map<std::uint32_t, Identifier>& all() noexcept { return identifiers_; }

  private:
    Watcher& watcher_;
    std::map<std::uint32_t, Identifier> identifiers_;
    std::uint32_t last_handle_ = 0;
};

}  // namespace verbatim::rdmacm
