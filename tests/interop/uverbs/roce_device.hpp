// A RoCE device that a test plays by itself: packets of datagram queue pairs, made and read by this
// file alone (InfiniBand Architecture Specification, volume 1, chapter 9, and annex A17).
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "packet_address.hpp"

namespace verbatim::interop {

using Bytes = std::vector<std::uint8_t>;

inline void put(Bytes& to, std::uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}
inline std::uint32_t get(const Bytes& from, std::size_t at, int bytes) {
    std::uint32_t value = 0;
    for (int i = 0; i != bytes; ++i) value = value << 8 | from.at(at + static_cast<std::size_t>(i));
    return value;
}

// Of a packet without its ICRC, sent with IPv4, identification 0 and no fragments.
inline Bytes invariant_checksum(const Bytes& packet, const std::string& from, const std::string& to,
                                std::uint16_t source_port) {
    Bytes covered(8, 0xff);
    put(covered, 0x45ff, 2);
    put(covered, 20 + 8 + packet.size() + 4, 2);
    put(covered, 0x00004000, 4);
    put(covered, 0xff11ffff, 4);
    put(covered, ntohl(inet_addr(from.c_str())), 4);
    put(covered, ntohl(inet_addr(to.c_str())), 4);
    put(covered, source_port, 2);
    put(covered, kRocePort, 2);
    put(covered, 8 + packet.size() + 4, 2);
    put(covered, 0xffff, 2);
    const std::size_t base = covered.size();
    covered.insert(covered.end(), packet.begin(), packet.end());
    covered[base + 4] = 0xff;
    std::uint32_t crc = ~0u;
    for (const std::uint8_t byte : covered) {
        crc ^= byte;
        for (int bit = 0; bit != 8; ++bit) crc = crc >> 1 ^ (0xedb88320u & (0u - (crc & 1)));
    }
    crc = ~crc;
    return {static_cast<std::uint8_t>(crc), static_cast<std::uint8_t>(crc >> 8),
            static_cast<std::uint8_t>(crc >> 16), static_cast<std::uint8_t>(crc >> 24)};
}

struct Datagram {
    std::uint8_t opcode = 0x64;
    bool solicited = false;
    std::uint16_t partition = 0xffff;
    std::uint32_t queue_pair = 0, sequence = 0, queue_key = 0, source = 0;
    std::optional<std::uint32_t> immediate;
    Bytes payload;

    Bytes packet() const {
        const std::size_t padding = -payload.size() & 3;
        Bytes bytes;
        put(bytes, opcode, 1);
        put(bytes, (solicited ? 0x80u : 0u) | 0x40u | padding << 4, 1);
        put(bytes, partition, 2);
        put(bytes, queue_pair, 4);
        put(bytes, sequence, 4);
        put(bytes, queue_key, 4);
        put(bytes, source, 4);
        if (immediate) put(bytes, *immediate, 4);
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        bytes.resize(bytes.size() + padding);
        return bytes;
    }
};

class RoceDevice {
  public:
    explicit RoceDevice(const std::string& peer, int last = 100)
        : peer_(peer),
          place_(address_of(getpid(), last)),
          socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        set(IP_MTU_DISCOVER, IP_PMTUDISC_DO);  // identification 0
        const sockaddr_in own = name(place_);
        if (bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
            throw std::runtime_error("the port is taken");
        const timeval patience{10, 0};
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    ~RoceDevice() { close(socket_); }
    RoceDevice(const RoceDevice&) = delete;
    RoceDevice& operator=(const RoceDevice&) = delete;

    const std::string& place() const { return place_; }
    ibv_gid gid() const { return gid_of(place_); }
    void set(int option, int value) const {
        if (setsockopt(socket_, IPPROTO_IP, option, &value, sizeof value) != 0)
            throw std::runtime_error("setsockopt failed");
    }

    void send(const Datagram& datagram) const { send_packet(datagram.packet()); }
    void send_packet(Bytes bytes) const {
        const Bytes sum = invariant_checksum(bytes, place_, peer_, kRocePort);
        bytes.insert(bytes.end(), sum.begin(), sum.end());
        send_raw(bytes);
    }
    void send_raw(const Bytes& bytes) const {
        const sockaddr_in to = name(peer_);
        if (sendto(socket_, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                   sizeof to) != static_cast<ssize_t>(bytes.size()))
            throw std::runtime_error("sendto failed");
    }
    // The next packet of the peer, whose checksum is right.
    Datagram receive() const {
        Bytes bytes(8192);
        sockaddr_in from{};
        socklen_t length = sizeof from;
        const ssize_t got = recvfrom(socket_, bytes.data(), bytes.size(), 0,
                                     reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 24) throw std::runtime_error("no packet came");
        bytes.resize(static_cast<std::size_t>(got));
        const Bytes sum(bytes.end() - 4, bytes.end());
        bytes.resize(bytes.size() - 4);
        EXPECT_EQ(sum, invariant_checksum(bytes, peer_, place_, ntohs(from.sin_port)));
        Datagram datagram;
        datagram.opcode = static_cast<std::uint8_t>(get(bytes, 0, 1));
        const std::uint32_t flags = get(bytes, 1, 1);
        datagram.solicited = (flags & 0x80) != 0;
        datagram.partition = static_cast<std::uint16_t>(get(bytes, 2, 2));
        datagram.queue_pair = get(bytes, 4, 4);
        datagram.sequence = get(bytes, 8, 4);
        datagram.queue_key = get(bytes, 12, 4);
        datagram.source = get(bytes, 16, 4);
        std::size_t head = 20;
        if (datagram.opcode == 0x65) datagram.immediate = get(bytes, head, 4), head += 4;
        const std::size_t padding = flags >> 4 & 3;
        datagram.payload = Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(head),
                                 bytes.end() - static_cast<std::ptrdiff_t>(padding));
        return datagram;
    }

  private:
    static sockaddr_in name(const std::string& place) {
        sockaddr_in name{};
        name.sin_family = AF_INET;
        name.sin_port = htons(kRocePort);
        inet_pton(AF_INET, place.c_str(), &name.sin_addr);
        return name;
    }

    const std::string peer_, place_;
    const int socket_;
};

}  // namespace verbatim::interop
