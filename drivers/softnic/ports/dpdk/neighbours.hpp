// The neighbours of an Ethernet link: MAC addresses of peers, and the answers to those who ask for
// the link's own. IPv6 addresses that follow from MAC addresses need neither. Threads: those
// inside the link's gate, but for what says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <verbatim/softnic/softnic.hpp>

#include "ethernet_frames.hpp"
#include "neighbour_packets.hpp"

namespace verbatim::softnic {

// The MAC address of an IP address, once it is known, and the time for questions until then.
// Threads: any.
class Neighbour {
  public:
    using Clock = std::chrono::steady_clock;
    // So many questions are answered, or the address is not there.
    static constexpr std::uint32_t kQuestions = 40;

    explicit Neighbour(const IpAddress& address) noexcept : address_(address) {}

    const IpAddress& address() const noexcept { return address_; }
    void learn(const MacAddress& mac) noexcept;
    // False: not known.
    bool find(MacAddress& mac) const noexcept;

    // True: it is to be asked for now: every 5 ms at first, then once a second (RFC 4861, section
    // 10). The caller does so.
    bool is_due(Clock::time_point now) const noexcept;
    // Whether an answer may still come soon.
    bool may_come() const noexcept {
        return questions_.load(std::memory_order_relaxed) < kQuestions;
    }

  private:
    static constexpr std::chrono::milliseconds kOften{5}, kSeldom{1000}, kForgotten{3000};
    static constexpr std::uint64_t kKnown = std::uint64_t{1} << 63;
    const IpAddress address_;
    std::atomic<std::uint64_t> mac_{0};
    mutable std::atomic<Clock::time_point> asked_{};
    mutable std::atomic<std::uint32_t> questions_{0};  // since nobody asked for a while
};

class Neighbours {
  public:
    // The device outlives this. Throws Error(invalid_argument): an address is none.
    Neighbours(EthernetDevice& device, const DpdkOptions& options);

    // The link's own. Any thread.
    const IpAddress& own() const noexcept { return own_; }
    // Throws std::bad_alloc.
    std::shared_ptr<const Neighbour> find(const IpAddress& address);
    // Asks for its MAC address if it is unknown and that is due. Any thread.
    void ask(const Neighbour& neighbour) noexcept;
    void take(const NeighbourPacket& packet) noexcept;

  private:
    void send(const NeighbourPacket& packet) noexcept;

    EthernetDevice& device_;
    const IpAddress own_;
    const MacAddress peer_mac_;
    const bool fixed_;  // all frames go there
    std::map<IpAddress, std::shared_ptr<Neighbour>> known_;
};

}  // namespace verbatim::softnic
