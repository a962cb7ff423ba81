// Floors of the ports between machines: datagrams of UDP sockets, polled. Long messages are
// datagrams of 4 KiB, each with a CRC that both sides compute, and copied by the receiver, as a
// packet's payload is.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "../../../drivers/softnic/ports/roce/packets/packet_checksum.hpp"
#include "../subject.hpp"
#include "../workloads.hpp"

namespace verbatim::bench {
namespace {

constexpr std::size_t kDatagram = 4096, kMostDatagrams = 16;

[[noreturn]] void fail_wire(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// Connected to the other process's.
class WireSocket {
  public:
    explicit WireSocket(Side& side) : file_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof name;
        if (file_ < 0 || bind(file_, reinterpret_cast<sockaddr*>(&name), bytes) != 0)
            fail_wire("bind");
        const int room = 1 << 20;
        setsockopt(file_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        setsockopt(file_, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        getsockname(file_, reinterpret_cast<sockaddr*>(&name), &bytes);
        const std::string theirs =
            side.exchange({reinterpret_cast<const char*>(&name), sizeof name});
        if (connect(file_, reinterpret_cast<const sockaddr*>(theirs.data()),
                    static_cast<socklen_t>(theirs.size())) != 0)
            fail_wire("connect");
    }
    ~WireSocket() { close(file_); }
    WireSocket(const WireSocket&) = delete;
    WireSocket& operator=(const WireSocket&) = delete;
    int get() const noexcept { return file_; }

  private:
    int file_;
};

// A message of a datagram; or of several, of which two are under way.
class WireFloor {
  public:
    WireFloor(Side& side, const Case& of)
        : bytes_(of.bytes), window_(of.window), out_(of.bytes), in_(of.bytes), socket_(side) {}

    std::byte* claim() { return out_.data(); }
    void post() {
        while (window_ > 1 && sent_ - returned_ == window_) look_for_credit();
        bytes_ <= kDatagram ? post_one() : post_datagrams();
        ++sent_;
    }
    const std::byte* take() {
        if (bytes_ <= kDatagram) {
            while (recv(socket_.get(), in_.data(), in_.size(), MSG_DONTWAIT) < 0) check();
            return in_.data();
        }
        for (std::size_t at = 0; at != bytes_;) at += take_datagrams(at);
        return in_.data();
    }
    void release() {
        const std::byte credit{};
        if (window_ > 1 && ::send(socket_.get(), &credit, 1, 0) < 0) fail_wire("send");
    }
    void progress() {}
    void finish() {}

  private:
    struct Datagram {
        std::array<std::byte, kDatagram> payload;
        std::uint32_t sum;
    };

    static void check() {
        if (errno != EAGAIN && errno != EINTR) fail_wire("socket");
    }
    void post_one() {
        while (::send(socket_.get(), out_.data(), bytes_, MSG_DONTWAIT) < 0) check();
    }
    void look_for_credit() {
        std::byte credit;
        if (recv(socket_.get(), &credit, 1, MSG_DONTWAIT) == 1)
            ++returned_;
        else
            check();
    }
    void post_datagrams() {
        std::array<std::uint32_t, kMostDatagrams> sums;
        std::array<std::array<iovec, 2>, kMostDatagrams> pieces;
        std::array<mmsghdr, kMostDatagrams> messages{};
        for (std::size_t i = 0; i != kMostDatagrams; ++i) {
            std::byte* const start = out_.data() + i * kDatagram;
            sums[i] = softnic::crc32(0, start, kDatagram);
            pieces[i] = {{{start, kDatagram}, {&sums[i], sizeof sums[i]}}};
            messages[i].msg_hdr.msg_iov = pieces[i].data();
            messages[i].msg_hdr.msg_iovlen = pieces[i].size();
        }
        for (std::size_t done = 0; done != kMostDatagrams;) {
            const int count = sendmmsg(socket_.get(), messages.data() + done,
                                       static_cast<unsigned>(kMostDatagrams - done), MSG_DONTWAIT);
            if (count < 0) check();
            done += count > 0 ? static_cast<std::size_t>(count) : 0;
        }
    }
    // Returns the bytes that came.
    std::size_t take_datagrams(std::size_t at) {
        std::array<iovec, kMostDatagrams> pieces;
        std::array<mmsghdr, kMostDatagrams> messages{};
        for (std::size_t i = 0; i != kMostDatagrams; ++i) {
            pieces[i] = {&landed_[i], sizeof landed_[i]};
            messages[i].msg_hdr.msg_iov = &pieces[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        const std::size_t left = (bytes_ - at) / kDatagram;
        const int count = recvmmsg(socket_.get(), messages.data(), static_cast<unsigned>(left),
                                   MSG_DONTWAIT, nullptr);
        if (count < 0) check();
        std::size_t taken = 0;
        for (std::size_t i = 0; count > 0 && i != static_cast<std::size_t>(count); ++i) {
            if (messages[i].msg_len == 1) {
                ++returned_;
                continue;
            }
            const Datagram& datagram = landed_[i];
            if (softnic::crc32(0, datagram.payload.data(), kDatagram) != datagram.sum)
                refuse_data();
            std::memcpy(in_.data() + at + taken, datagram.payload.data(), kDatagram);
            taken += kDatagram;
        }
        return taken;
    }

    std::size_t bytes_;
    unsigned window_;
    std::vector<std::byte> out_, in_;
    std::vector<Datagram> landed_{kMostDatagrams};
    WireSocket socket_;
    std::uint64_t sent_ = 0, returned_ = 0;
};

}  // namespace

void add_wire(Subjects& all) {
    add(all, "floor", run_case<WireFloor>, {&kWireMessage8, &kWireWrite8, &kWire64k});
}

}  // namespace verbatim::bench
