// Messages of sendmmsg(), one for each run.
#include "packet_runs.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "udp_socket.hpp"

namespace verbatim::softnic {
namespace {

struct RunMessages {
    static constexpr std::size_t kMostPieces = 8 * kMostPacketsPerCall;
    struct Room {
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> bytes;
    };
    std::array<mmsghdr, kMostPacketsPerCall> messages;
    std::array<std::size_t, kMostPacketsPerCall> packets;  // of each message
    std::array<Room, kMostPacketsPerCall> rooms;
    std::array<iovec, kMostPieces> pieces;
    std::size_t used = 0, pieces_used = 0;

    bool has_room(const PacketPieces& packet) const noexcept {
        return pieces_used + packet.size() <= pieces.size();
    }
    void begin(SocketName& peer) noexcept {
        msghdr& header = messages[used].msg_hdr;
        header = message_to(peer);
        header.msg_iov = &pieces[pieces_used];
        packets[used++] = 0;
    }
    void add(const PacketPieces& packet) noexcept {
        std::copy(packet.begin(), packet.end(), &pieces[pieces_used]);
        pieces_used += packet.size();
        messages[used - 1].msg_hdr.msg_iovlen += packet.size();
        ++packets[used - 1];
    }
    // All of a run are as long as this one.
    void cut_at(const PacketPieces& packet) noexcept {
        const auto each = static_cast<std::uint16_t>(packet.bytes());
        msghdr& header = messages[used - 1].msg_hdr;
        header.msg_control = rooms[used - 1].bytes.data();
        header.msg_controllen = CMSG_LEN(sizeof each);
        cmsghdr* const option = CMSG_FIRSTHDR(&header);
        option->cmsg_level = IPPROTO_UDP;
        option->cmsg_type = UDP_SEGMENT;
        option->cmsg_len = CMSG_LEN(sizeof each);
        std::memcpy(CMSG_DATA(option), &each, sizeof each);
    }
};

}  // namespace

bool can_send_runs(int socket) noexcept {
    int each = 0;
    socklen_t bytes = sizeof each;
    return getsockopt(socket, IPPROTO_UDP, UDP_SEGMENT, &each, &bytes) == 0;
}

int send_runs(int socket, SocketName& peer, std::span<const PacketPieces> packets) noexcept {
    RunMessages run;
    const std::size_t most = std::min(packets.size(), kMostPacketsPerCall);
    for (std::size_t i = 0; i < most && run.has_room(packets[i]); ++i) {
        if (i == 0 || packets[i].identification == 0) run.begin(peer);
        run.add(packets[i]);
        if (run.packets[run.used - 1] == 2) run.cut_at(packets[i]);
    }
    const int sent = sendmmsg(socket, run.messages.data(), static_cast<unsigned>(run.used),
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    std::size_t taken = 0;
    for (int i = 0; i < sent; ++i) taken += run.packets[static_cast<std::size_t>(i)];
    return sent < 0 ? sent : static_cast<int>(taken);
}

}  // namespace verbatim::softnic
