// What tests of failing connections share: the Error a call throws, a server that is no Verbatim, a
// caller that speaks TCP by hand, and what was logged.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <verbatim/core/context.hpp>

#include "pair/connected_pair.hpp"
#include "pair/graph_crosses.hpp"

namespace verbatim::test {

// The Error that `call` throws. A call that throws nothing fails the test and yields Errc::ok.
template <class Call>
Error error_of(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        return error;
    }
    ADD_FAILURE() << "no error was thrown";
    return {Errc::ok, "nothing", "nothing"};
}

inline bool says(const Error& error, const std::string& part) {
    if (std::string(error.what()).find(part) != std::string::npos) return true;
    ADD_FAILURE() << "\"" << error.what() << "\" does not say \"" << part << "\"";
    return false;
}

inline std::string local(std::uint16_t port) { return "127.0.0.1:" + std::to_string(port); }

// A TCP socket of 127.0.0.1, blocking, with 20 s of patience.
class RawSocket {
  public:
    explicit RawSocket(int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) : fd_(fd) {}
    RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    RawSocket& operator=(RawSocket&&) = delete;
    ~RawSocket() {
        if (fd_ >= 0) close(fd_);
    }
    int fd() const { return fd_; }

    static RawSocket connected(std::uint16_t port) {
        RawSocket made;
        const sockaddr_in to = address(port);
        EXPECT_EQ(::connect(made.fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
        return made;
    }
    bool put(std::span<const std::byte> bytes) const {
        return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(bytes.size());
    }
    bool put(const std::string& text) const { return put(std::as_bytes(std::span(text))); }
    // Everything until the peer closes, or `most` bytes.
    std::vector<std::byte> get(std::size_t most) const {
        std::vector<std::byte> bytes;
        while (bytes.size() < most) {
            pollfd entry{fd_, POLLIN, 0};
            if (poll(&entry, 1, 20000) != 1) break;
            std::byte piece[4096];
            const ssize_t count = recv(fd_, piece, std::min(sizeof piece, most - bytes.size()), 0);
            if (count <= 0) break;
            bytes.insert(bytes.end(), piece, piece + count);
        }
        return bytes;
    }

    static sockaddr_in address(std::uint16_t port) {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        return at;
    }

  private:
    int fd_;
};

// Listens on 127.0.0.1 and treats the first caller as `talk` says, in a thread.
class Stranger {
  public:
    explicit Stranger(std::function<void(const RawSocket&)> talk) {
        sockaddr_in at = RawSocket::address(0);
        socklen_t bytes = sizeof at;
        EXPECT_EQ(bind(listener_.fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
        EXPECT_EQ(listen(listener_.fd(), 8), 0);
        getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&at), &bytes);
        port_ = ntohs(at.sin_port);
        thread_ = std::thread([this, talk = std::move(talk)] {
            const RawSocket caller(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
            if (caller.fd() >= 0) talk(caller);
        });
    }
    ~Stranger() {
        shutdown(listener_.fd(), SHUT_RDWR);  // ends a wait for a caller
        thread_.join();
    }
    std::uint16_t port() const { return port_; }

  private:
    RawSocket listener_;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

// What this process writes to stderr while it lives.
class CapturedLog {
  public:
    CapturedLog() { testing::internal::CaptureStderr(); }
    std::string text() { return testing::internal::GetCapturedStderr(); }
    // Waits until another thread has written that.
    void expect(const std::string& part) const {
        const Deadline deadline = Deadline::after(std::chrono::seconds(20));
        std::string so_far;
        while (so_far.find(part) == std::string::npos && !deadline.passed()) {
            std::ifstream file("/proc/self/fd/2");  // the capture goes to a file
            so_far.assign(std::istreambuf_iterator<char>(file), {});
            std::this_thread::yield();
        }
        EXPECT_NE(so_far.find(part), std::string::npos) << so_far;
    }
};

inline std::size_t count_of(const std::string& text, const std::string& part) {
    std::size_t count = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

// A message and a graph cross: the connection is usable.
inline void expect_usable(Connection& from, Connection& to) {
    const std::string text = "still here";
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    from.send_message(1, std::as_bytes(std::span(text)), {}, deadline);
    const Message message = to.receive_message(deadline);
    EXPECT_EQ(message.channel(), 1);
    EXPECT_EQ(message.payload().size(), text.size());
    EXPECT_TRUE(graph_crosses(from, to, deadline));
}

}  // namespace verbatim::test
