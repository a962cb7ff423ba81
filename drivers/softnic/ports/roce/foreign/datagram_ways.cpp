// Packets to one address after the other.
#include "datagram_ways.hpp"

#include <cerrno>
#include <new>
#include <utility>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/log.hpp>

#include "../back_end/udp_socket.hpp"

namespace verbatim::softnic {
namespace {

// A back end that only sends. What arrives at the socket goes to inboxes.
class SentDatagrams final : public PacketBackEnd {
  public:
    SentDatagrams(std::shared_ptr<RoceSocket> socket, const StreamPlace& peer) noexcept
        : socket_(std::move(socket)), place_(peer), peer_(name_of(peer)) {}

    int file() const noexcept override { return -1; }
    std::size_t receive(std::span<std::byte>, std::size_t,
                        std::span<std::size_t>) noexcept override {
        return 0;
    }
    std::size_t send(std::span<const PacketPieces> packets) noexcept override;
    std::uint32_t refusals() const noexcept override { return 0; }
    std::uint64_t foreign() const noexcept override { return 0; }

  private:
    void tell_once(int cause, std::size_t bytes) noexcept;

    const std::shared_ptr<RoceSocket> socket_;
    const StreamPlace place_;
    SocketName peer_;
    bool told_ = false;
};

// What another machine's kernel said of an earlier packet is no answer to this one.
std::size_t SentDatagrams::send(std::span<const PacketPieces> packets) noexcept {
    constexpr int kTries = 2;
    for (int i = 0; i != kTries; ++i) {
        const int sent = send_packets(socket_->file(), peer_, packets);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        if (errno == EAGAIN || errno == EINTR) return 0;
        tell_once(errno, packets[0].bytes());
        empty_error_queue(socket_->file());
    }
    return 1;  // the first one is lost
}

// Programs do not learn of datagrams that are lost, and would look for the cause for long.
void SentDatagrams::tell_once(int cause, std::size_t bytes) noexcept try {
    if (cause == ECONNREFUSED || std::exchange(told_, true)) return;
    log::warn("a datagram of {} bytes to {} was not sent: {}{}", bytes, text_of(place_),
              errno_text(cause),
              cause == EMSGSIZE ? "; set [devices] mtu to what the network carries" : "");
} catch (const std::exception&) {
}

bool is_of(const std::array<std::uint8_t, 16>& address, bool mapped) noexcept {
    return is_mapped({address, 0}) == mapped;
}

}  // namespace

DatagramWays::Way* DatagramWays::to(const std::array<std::uint8_t, 16>& address) noexcept try {
    const auto known = ways_.find(address);
    if (known != ways_.end()) [[likely]]
        return &known->second;
    if (!is_of(address, is_mapped(socket_->place()))) return nullptr;
    if (ways_.size() == kMost) ways_.clear();
    const StreamPlace peer{address, kRocePort};
    Way way{PacketChecksum(socket_->place(), peer),
            service_.over(std::make_unique<SentDatagrams>(socket_, peer), socket_->place(), peer)};
    return &ways_.emplace(address, std::move(way)).first->second;
} catch (const std::bad_alloc&) {
    return nullptr;
}

}  // namespace verbatim::softnic
