// The changes of a queue pair's state: verbs' states, failure, reset, and the ways to its peers.
// Control path, one caller at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "connection_setup.hpp"

namespace verbatim::softnic {

class QueuePairStates {
  public:
    QueuePairStates(QueuePair& queue_pair, DeviceCore& core, QueuePairTurns& turns) noexcept
        : queue_pair_(queue_pair), core_(core), turns_(turns) {}
    QueuePairStates(const QueuePairStates&) = delete;
    QueuePairStates& operator=(const QueuePairStates&) = delete;

    // Its completions are written, and rounds look at it from now on. Throws std::bad_alloc.
    void open();
    // After an open() that threw.
    void abandon() noexcept;
    // Nothing comes or goes any more.
    void close() noexcept;
    void reset();
    void fail() noexcept;

    // Verbs' states; no QueuePair::connect() beside them.
    // From reset to initialized: receives may be posted.
    void initialize() noexcept;
    // From initialized to ready_to_receive: messages of this peer are received. Throws
    // Error(out_of_memory).
    void receive_from(const QueuePairPeer& peer);
    // From ready_to_receive to ready, with a way to the peer: requests are executed.
    void start(std::shared_ptr<Link> link, ChannelSender outgoing,
               std::shared_ptr<const WakeFile> waker) noexcept;
    // From reset to ready, with a stream to the peer. Throws Error as StreamDoors::meet().
    void start(PortKind wire, const QueuePairAddress& own, const QueuePairAddress& peer,
               Instant deadline);
    // From initialized to ready_to_receive, with packets from a peer that need not be ours; then to
    // ready. Throws Error as StreamSetup::meet_foreign().
    void receive_packets(FlowOptions options);
    void send_packets(const FlowStart& start);
    // The process that may sleep until its messages are received.
    void acknowledge_to(std::shared_ptr<Link> link) noexcept;
    // There is no way to the peer: requests fail as those of a peer that does not answer.
    void give_up() noexcept;
    // Requests that are not begun wait (verbs' SQD); `report`: QueuePairEvent::drained.
    void pause_sending(bool report) noexcept;
    void resume_sending() noexcept;

    // Of datagram queue pairs: from ready_to_receive to ready, with the first PSN; and the answers
    // to flow requests.
    void send_datagrams(std::uint32_t first_sequence) noexcept;
    void add_flow(std::uint32_t number, std::shared_ptr<Link> link, ChannelSender ring) noexcept;
    void refuse_flow(std::uint32_t number, bool absent) noexcept;

  private:
    void attach();
    void detach() noexcept;
    void write_no_more() noexcept;
    QueuePairEngines& engines() noexcept { return turns_.engines(); }
    QueuePairShared& shared() noexcept { return turns_.engines().shared(); }
    void end_reset(const std::shared_ptr<AccessWord>& ring) noexcept;

    QueuePair& queue_pair_;
    DeviceCore& core_;
    QueuePairTurns& turns_;
    PacketFlow* flow_ = nullptr;  // of receive_packets(), the setup's
};

}  // namespace verbatim::softnic
