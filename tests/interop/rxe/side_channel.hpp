// A TCP connection by which the ends of a queue pair tell each other of themselves.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace verbatim::interop {

inline void must(bool holds, const std::string& text) {
    if (!holds) throw std::runtime_error(text);
}

class SideChannel {
  public:
    // Listens at the port for one peer, or calls the peer. Throws.
    SideChannel(std::uint16_t port, const char* peer) {
        sockaddr_in place{};
        place.sin_family = AF_INET;
        place.sin_port = htons(port);
        must(peer == nullptr || inet_pton(AF_INET, peer, &place.sin_addr) == 1, "no such peer");
        socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        auto* const name = reinterpret_cast<sockaddr*>(&place);
        if (peer != nullptr)
            must(connect(socket_, name, sizeof place) == 0, "connect: " + text());
        else
            accept_one(name, sizeof place);
    }
    ~SideChannel() { close(socket_); }
    SideChannel(const SideChannel&) = delete;
    SideChannel& operator=(const SideChannel&) = delete;

    // Gives the own value for the peer's. Both ends call it. Blocks.
    template <class Value>
    Value exchange(const Value& own) {
        static_assert(std::is_trivially_copyable_v<Value>);
        must(send(socket_, &own, sizeof own, MSG_NOSIGNAL) == ssize_t{sizeof own},
             "send: " + text());
        Value peers;
        must(recv(socket_, &peers, sizeof peers, MSG_WAITALL) == ssize_t{sizeof peers},
             "the peer has gone");
        return peers;
    }

    // The peer has said something, or is gone: exchange() does not wait long.
    bool has_word() const {
        char word = 0;
        return recv(socket_, &word, sizeof word, MSG_PEEK | MSG_DONTWAIT) >= 0;
    }

  private:
    static std::string text() { return std::strerror(errno); }

    void accept_one(const sockaddr* name, socklen_t bytes) {
        const int listener = socket_, one = 1;
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        must(bind(listener, name, bytes) == 0 && listen(listener, 1) == 0, "listen: " + text());
        socket_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        close(listener);
        must(socket_ >= 0, "accept: " + text());
    }

    int socket_ = -1;
};

}  // namespace verbatim::interop
