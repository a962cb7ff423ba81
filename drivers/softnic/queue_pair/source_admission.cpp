// Coming and going of datagram senders.
#include "source_admission.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace verbatim::softnic {

// The gate keeps the list; the connection's lock may be held by the thread inside.
ChannelPlace SourceAdmission::admit(const LinkPeer& asking, std::uint32_t from,
                                    ChannelTerms terms) {
    const PeerSession& peer = asking.session;
    receive_gate_.enter_waiting();
    try {
        const std::string object = fmt::format("queue pair {}", shared_.traits.number);
        if (!shared_.receives() || shared_.sources.frozen())
            throw Error(Errc::connection_refused, object, "it does not receive (yet)");
        sweep(std::chrono::steady_clock::now() + kSweepTime);
        if (shared_.sources.size() >= DatagramSources::kMost)
            throw Error(Errc::connection_refused, object,
                        fmt::format("{} queue pairs send to it already", DatagramSources::kMost));
        // A whole datagram fits wherever the ring stands.
        terms.ring_bytes = std::max<std::size_t>(supply_.configured(), 4 * kMaxDatagramBytes);
        DatagramSources::Source& source = shared_.sources.add(
            peer, from, ChannelReceiver(supply_.slabs().take(peer.device, terms.bytes()), terms));
        listen_to(source);
        source.ring.set_listens(!attention_.hot());
        ChannelPlace place = source.ring.lend(asking.process);
        receive_gate_.leave_for_good();
        return place;
    } catch (...) {
        receive_gate_.leave_for_good();
        throw;
    }
}

// One that cannot be listened to goes with the next sweep.
void SourceAdmission::listen_to(DatagramSources::Source& source) {
    try {
        attention_.listen_to(source.ring);
    } catch (...) {
        source.ended = true;
        source.leaving = attention_.nothing_to_leave();
        throw;
    }
}

// What is not drained yet is swept when the next sender comes or goes.
void SourceAdmission::end_session(std::uint64_t session, Instant deadline) noexcept {
    receive_gate_.enter_waiting();
    if (!shared_.sources.frozen()) {
        shared_.sources.end(session);
        sweep(deadline);
    }
    receive_gate_.leave_for_good();
}

// Inside the receive gate. A poll that lasts longer may wait for another control thread, which may
// wait for this one: then the ring is kept until the next time.
void SourceAdmission::sweep(Instant deadline) noexcept {
    shared_.sources.sweep([&](DatagramSources::Source& source) {
        return attention_.listen_no_more(source.ring, source.leaving, deadline);
    });
}

// Listening ends outside the gate, so that no control thread waits for a poll.
void SourceAdmission::close() noexcept {
    receive_gate_.enter_waiting();
    shared_.sources.freeze();
    receive_gate_.leave_for_good();
    shared_.sources.for_each([this](DatagramSources::Source& source) {
        attention_.listen_no_more(source.ring, source.leaving);
    });
}

}  // namespace verbatim::softnic
