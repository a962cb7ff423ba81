// The set-up of a queue pair's stream, where its port is tcp: the token by which one may come, and
// the stream itself until the queue pair forgets its peer. Control path, one caller
// at a time; tell() also beside others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>

#include "../ports/tcp/meeting/stream_service.hpp"
#include "queue_pair_state.hpp"

namespace verbatim::softnic {

class StreamSetup {
  public:
    StreamSetup(StreamService& service, QueuePairShared& shared) noexcept
        : service_(service), shared_(shared) {}
    ~StreamSetup() { decline(); }
    StreamSetup(const StreamSetup&) = delete;
    StreamSetup& operator=(const StreamSetup&) = delete;

    // This machine's address on the way to the peer; zeros, as at first: not known.
    void set_local_address(const std::array<std::uint8_t, 16>& local) noexcept { local_ = local; }
    // Where a stream of the peer arrives, if the port is offered: one may come then, until
    // decline(). Throws Error(device_error).
    void tell(QueuePairAddress& address);
    void decline() noexcept;
    // The stream between these two, which the engine thread watches, though it may come later; the
    // queue pair's ring is open. Throws Error as StreamDoors::meet().
    std::unique_ptr<PeerStream> meet(const QueuePairAddress& own, const QueuePairAddress& peer,
                                     Instant deadline, const PeerStream::Driver& driver);
    // Inside both gates: the queue pair's from now on.
    void bind(std::unique_ptr<PeerStream> stream) noexcept;
    // No round comes to the queue pair: the engine thread does not either any more.
    void unwatch() noexcept;
    // The stream ends. After unwatch(), inside both gates.
    void forget() noexcept;

  private:
    StreamService& service_;
    QueuePairShared& shared_;
    std::array<std::uint8_t, 16> local_{};
    std::mutex mutex_;     // over the token
    StreamToken token_{};  // zeros: none
    std::unique_ptr<PeerStream> stream_;
};

}  // namespace verbatim::softnic
