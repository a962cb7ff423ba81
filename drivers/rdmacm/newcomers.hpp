// Links to listeners, until they have said what they want and become connection requests. Threads:
// under the manager's lock.
#pragma once

#include <cstdint>
#include <map>

#include "../softnic/host/descriptor.hpp"
#include "identifier.hpp"
#include "identifier_table.hpp"
#include "peer_message.hpp"
#include "watcher.hpp"

namespace verbatim::rdmacm {

class Newcomers {
  public:
    // Both must stay.
    Newcomers(IdentifierTable& identifiers, Watcher& watcher)
        : identifiers_(identifiers), watcher_(watcher) {}

    // All links that wait at a listener. False: there are no descriptors left for them.
    bool welcome(Identifier& listener);
    // Whether the watcher's key is one of a newcomer.
    bool contains(std::uint64_t key) const noexcept { return links_.contains(key); }
    void hear(std::uint64_t key);
    // Links that have said nothing in their time go; when the next one's time ends.
    Clock::time_point drop_silent(Clock::time_point now);

  private:
    struct Newcomer {
        softnic::Descriptor link;
        std::uint32_t listener;
        Clock::time_point deadline;
    };
    // Keys of the watcher: identifiers' handles are below, newcomers above.
    static constexpr std::uint64_t kFirstKey = std::uint64_t{1} << 32;

    void take_request(Identifier& listener, softnic::Descriptor& link, const PeerMessage& request);

    IdentifierTable& identifiers_;
    Watcher& watcher_;
    std::map<std::uint64_t, Newcomer> links_;
    std::uint64_t last_key_ = kFirstKey;
};

}  // namespace verbatim::rdmacm
