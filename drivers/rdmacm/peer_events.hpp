// Changes of identifiers that peers and clocks cause: messages, ends of links, deadlines. Threads:
// under the manager's lock.
#pragma once

#include "identifier.hpp"
#include "identifier_table.hpp"
#include "peer_message.hpp"
#include "watcher.hpp"

namespace verbatim::rdmacm {

class PeerEvents {
  public:
    using Time = Clock::time_point;

    // `watcher`: looks after the links; it must stay.
    explicit PeerEvents(Watcher& watcher) : watcher_(watcher) {}

    // All that the link has to say.
    void hear(Identifier& identifier);
    // Kept for later if the listener has no time now, or there is none yet.
    void send_request(Identifier& identifier);
    // Both sides are ready.
    void establish(Identifier& identifier);
    // The connection is over on both sides.
    void part(Identifier& identifier, int status = 0);
    // The deadline has come.
    void run_out(Identifier& identifier);
    // What is due is done; when the next deadline is, or Time::max().
    Time meet_deadlines(IdentifierTable& identifiers, Time now);

  private:
    void obey(Identifier& identifier, const PeerMessage& message);
    void take_reply(Identifier& identifier, const PeerMessage& reply);
    void take_refusal(Identifier& identifier, const PeerMessage& refusal);
    void leave(Identifier& identifier);
    void lose(Identifier& identifier);

    Watcher& watcher_;
};

}  // namespace verbatim::rdmacm
