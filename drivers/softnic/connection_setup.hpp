// The set-up of a queue pair's connection: which peer it belongs to, the ring that this peer
// writes, and the way to it. Threads: control path, any; one lock guards it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "links/link_peer.hpp"
#include "queue_pair/datagram_setup.hpp"
#include "queue_pair/stream_setup.hpp"
#include "queue_pair_turns.hpp"
#include "rings/ring_supply.hpp"

namespace verbatim::softnic {

// The one queue pair that another one may talk to.
struct QueuePairPeer {
    Nonce nonce{};
    std::uint32_t number = 0;
    bool operator==(const QueuePairPeer&) const = default;
};

class ConnectionSetup {
  public:
    // `bell`: wakes the threads that drive queue pairs.
    ConnectionSetup(QueuePairTurns& turns, RingSupply& supply, const ChannelTerms& terms,
                    WireServices& wires, const InboxNotice& bell) noexcept
        : turns_(turns),
          shared_(turns.engines().shared()),
          supply_(supply),
          streams_(wires, shared_),
          datagrams_(wires, shared_, turns.attention(), bell),
          terms_(terms) {}
    ConnectionSetup(const ConnectionSetup&) = delete;
    ConnectionSetup& operator=(const ConnectionSetup&) = delete;

    // Against peers that ask, and against changes of the connection.
    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
    // Of the tcp port.
    StreamSetup& streams() const noexcept { return streams_; }
    // Of datagram queue pairs.
    DatagramSetup& datagrams() noexcept { return datagrams_; }
    // Of its rings.
    const ChannelTerms& terms() const noexcept { return terms_; }

    // The queue pair is to be connected to this peer. Throws Error: it is already, or to another.
    void expect(const QueuePairPeer& peer);
    // A ring for the peer, unless there is one. Throws Error(out_of_memory).
    void open_ring(const Nonce& peer);
    // Its messages are received from now on.
    void accept(const QueuePairPeer& peer) noexcept;
    // Control thread: hands out the ring to the peer's queue pair, which claims this one. Throws
    // Error.
    ChannelPlace admit(const LinkPeer& asking, std::uint32_t from);
    // Control thread: the peer of this session has gone.
    void end_session(std::uint64_t session) noexcept;
    // Inside both gates: the way to the peer.
    void bind(std::shared_ptr<Link> link, ChannelSender outgoing,
              std::shared_ptr<const WakeFile> waker) noexcept;
    // expect() has led to nothing: back to before it, unless the peer was given the ring.
    void withdraw() noexcept;

    // Waits for the thread inside with a peer's question: afterwards, until it is allowed again, no
    // ring is made or given away.
    void refuse_callers(bool refuse) noexcept;
    // Nobody listens to the ring any more.
    void forget_ring() noexcept;
    // Inside both gates, and nobody listens to the ring. Returns the word of the ring that there
    // was, to be withdrawn.
    std::shared_ptr<AccessWord> forget_peer() noexcept;
    std::optional<std::uint32_t> peer_number() const;

    // As verbs' attributes of these names: what the peer may do here, how long it waits for a
    // receive (min_rnr_timer).
    void set_allowed(Access allowed) noexcept;
    void set_not_ready_for(std::chrono::nanoseconds time) noexcept;
    // Before it is connected. No: a short ring is enough.
    void set_carries_messages(bool carries) noexcept { carries_messages_ = carries; }

  private:
    void claim(const QueuePairPeer& peer);
    void make_ring(const Nonce& peer);
    void drop_ring() noexcept;
    bool close_unclaimed() noexcept;
    void open_door(std::uint64_t session);

    QueuePairTurns& turns_;
    QueuePairShared& shared_;
    RingSupply& supply_;
    mutable StreamSetup streams_;
    DatagramSetup datagrams_;
    mutable std::mutex mutex_;  // guards what follows, and shared_.connection.link
    bool carries_messages_ = true;
    ChannelTerms terms_;                 // of the ring that there is, or will be
    std::optional<QueuePairPeer> peer_;  // set by connect() or by the peer's, whichever comes first
    bool claimed_by_peer_ = false;
    std::shared_ptr<WakeDoor> door_;  // of the peer that has the ring
    bool closed_ = false;             // peers that ask for the ring are refused
};

}  // namespace verbatim::softnic
