// Frames of the tcp port, and a peer that is the test: it speaks to a queue pair's stream byte by
// byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "ports/tcp/frame.hpp"
#include "ports/tcp/stream_hello.hpp"
#include "softnic_end.hpp"

namespace verbatim::softnic::test {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T& value) {
    const std::size_t before = bytes.size();
    bytes.resize(before + sizeof value);
    std::memcpy(bytes.data() + before, &value, sizeof value);
}

template <class Body>
Bytes frame_of(FrameKind kind, std::uint64_t number, const Body& body, const Bytes& payload = {},
               std::uint8_t flags = 0) {
    FrameHeader header;
    header.bytes = static_cast<std::uint32_t>(sizeof header + sizeof body + payload.size());
    header.kind = kind;
    header.flags = flags;
    header.number = number;
    Bytes bytes;
    append(bytes, header);
    append(bytes, body);
    for (const std::byte byte : payload) bytes.push_back(byte);
    return bytes;
}

// One end of a TCP connection to a loopback port.
class RawStream {
  public:
    explicit RawStream(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in in{};
        in.sin_family = AF_INET;
        in.sin_port = htons(port);
        in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (connect(fd_, reinterpret_cast<sockaddr*>(&in), sizeof in) != 0) std::abort();
    }
    ~RawStream() { ::close(fd_); }
    RawStream(const RawStream&) = delete;
    RawStream& operator=(const RawStream&) = delete;

    bool put(std::span<const std::byte> bytes) {
        return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    // True if something can be read, or the other end is gone, within that time.
    bool readable(int at_most_ms) {
        pollfd entry{fd_, POLLIN, 0};
        return ::poll(&entry, 1, at_most_ms) == 1;
    }
    // What can be read now; nothing at the end of the stream.
    Bytes get() {
        Bytes bytes(1 << 16);
        const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), 0);
        bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
        return bytes;
    }
    // Reads until the other end has closed; false if it does not.
    bool ended() {
        while (readable(20000))
            if (get().empty()) return true;
        return false;
    }

  private:
    int fd_;
};

// A queue pair whose peer is the test.
class Victim {
  public:
    explicit Victim(const EndOptions& options) : end(options) {
        EndAddress fake;
        fake.queue_pair = end.queue_pair->address();
        fake.queue_pair.number = kNumber;
        fake.queue_pair.stream_token = {};  // the smaller one dials
        end.connect(fake);
    }
    static constexpr std::uint32_t kNumber = 77;

    StreamHello hello() const {
        StreamHello hello;
        hello.from_number = kNumber;
        hello.to = end.queue_pair->address().stream_token;
        return hello;
    }
    std::uint16_t port() const { return end.queue_pair->address().stream_port; }
    // Says hello, and takes the welcome.
    bool meet(RawStream& stream) const {
        Bytes bytes;
        append(bytes, hello());
        StreamWelcome welcome;
        if (!stream.put(bytes) || !stream.readable(20000)) return false;
        const Bytes answer = stream.get();
        if (answer.size() < sizeof welcome) return false;
        std::memcpy(&welcome, answer.data(), sizeof welcome);
        return welcome.magic == kStreamMagic && welcome.status == StreamStatus::welcome;
    }
    // Polls until the queue pair has failed; every completion is kept.
    bool fails() {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (end.queue_pair->state() != QueuePairState::error) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            for (const auto& completion : end.poll()) seen.push_back(completion);
        }
        for (const auto& completion : end.poll()) seen.push_back(completion);
        return true;
    }

    End end;
    std::vector<mlx5::Completion> seen;
};

inline EndOptions tcp_options() {
    EndOptions options;
    options.device.port = PortKind::tcp;
    return options;
}
// For tests of both ports over wires: that of the environment, else tcp.
inline EndOptions wire_options() {
    EndOptions options;
    if (options.device.port != PortKind::udp) options.device.port = PortKind::tcp;
    return options;
}

}  // namespace verbatim::softnic::test
