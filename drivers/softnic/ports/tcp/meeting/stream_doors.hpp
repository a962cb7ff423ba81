// The listeners of a device for streams, one for each of its addresses that a queue pair names, and
// the streams that came and wait for their queue pair. Strangers are bounded in number, bytes and
// time. Control path; threads: any.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include <verbatim/driver/device.hpp>

#include "../peer_stream.hpp"
#include "../stream_hello.hpp"
#include "stream_socket.hpp"

namespace verbatim::softnic {

class StreamDoors final : EventThread::Handler {
  public:
    explicit StreamDoors(EventThread& thread) noexcept : thread_(thread) {}
    ~StreamDoors();

    // Where streams to that address of this machine arrive; zeros: the loopback. Throws
    // Error(device_error).
    StreamPlace open(const std::array<std::uint8_t, 16>& local);
    // A token by which one stream may come, until it is withdrawn. Throws Error(device_error).
    StreamToken invite();
    void withdraw(const StreamToken& token) noexcept;
    // The stream between the queue pairs of these addresses: one side dials, and waits for the
    // kernel of the other one only; that one takes it when it comes. Throws Error: timeout,
    // peer_lost, device_error.
    void meet(const QueuePairAddress& own, const QueuePairAddress& peer, Instant deadline,
              PeerStream& stream);

  private:
    struct Stranger {
        Descriptor socket;
        Instant hello_by;
        std::array<std::byte, sizeof(StreamHello)> hello{};
        std::size_t bytes = 0;
    };
    struct Invitation {
        Descriptor socket;  // of a stream that has come
        StreamHello hello;
        PeerStream* expected = nullptr;  // where it goes, if it comes from that queue pair
        StreamToken from{};
        bool used = false;  // it has gone there
    };

    bool ready() noexcept override;
    bool tick() noexcept override;
    void start();
    void watch_doors() noexcept;
    bool serve() noexcept;
    void accept_strangers(const Descriptor& door);
    static bool hear(Stranger& stranger) noexcept;
    void admit(Stranger& stranger);
    void tell_full() noexcept;
    static Descriptor call(const QueuePairAddress& own, const QueuePairAddress& peer,
                           Instant deadline);
    void expect(const QueuePairAddress& own, const QueuePairAddress& peer, PeerStream& stream);
    static void hand_on(Invitation& invitation);

    struct Door {
        StreamPlace place;
        Descriptor listener;
        bool watched = false;
    };

    EventThread& thread_;
    const std::uint64_t generation_ = fork_generation();
    std::once_flag started_;
    std::atomic<std::uint64_t> handler_{0};
    // Of the engine thread.
    std::vector<Stranger> strangers_;
    bool full_ = false;    // the process may have no more descriptors
    Instant full_told_{};  // when that was last logged

    std::mutex mutex_;                                    // guards what follows
    std::map<std::array<std::uint8_t, 16>, Door> doors_;  // by the address asked for
    std::map<StreamToken, Invitation> invited_;
};

}  // namespace verbatim::softnic
