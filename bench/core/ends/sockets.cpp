// Stream sockets, Unix and TCP (without delay), polled or blocking.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "../subject.hpp"
#include "../workloads.hpp"

namespace verbatim::bench {
namespace {

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

class File {
  public:
    explicit File(int file) : file_(file) {
        if (file < 0) fail("socket");
    }
    ~File() { close(file_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    int get() const noexcept { return file_; }

  private:
    int file_;
};

// Any address of the family. A Unix socket that is bound to none gets one from the kernel.
std::string any_address(int family) {
    sockaddr_in internet{};
    internet.sin_family = AF_INET;
    internet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const sockaddr_un local{.sun_family = AF_UNIX, .sun_path = {}};
    if (family == AF_INET) return {reinterpret_cast<const char*>(&internet), sizeof internet};
    return {reinterpret_cast<const char*>(&local), sizeof local.sun_family};
}

const sockaddr* address(const std::string& text) {
    return reinterpret_cast<const sockaddr*>(text.data());
}

int accept_one(Side& side, int family) {
    const File listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const std::string any = any_address(family);
    if (bind(listener.get(), address(any), static_cast<socklen_t>(any.size())) != 0) fail("bind");
    if (listen(listener.get(), 1) != 0) fail("listen");
    sockaddr_storage own{};
    socklen_t bytes = sizeof own;
    if (getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0)
        fail("getsockname");
    (void)side.exchange({reinterpret_cast<const char*>(&own), bytes});
    return accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
}

int connect_one(Side& side, int family) {
    const int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string theirs = side.exchange("");
    if (connect(file, address(theirs), static_cast<socklen_t>(theirs.size())) != 0) fail("connect");
    return file;
}

template <int family, bool sleeps>
class SocketEnd {
  public:
    SocketEnd(Side& side, const Case& of)
        : bytes_(of.bytes),
          out_(of.bytes),
          in_(of.bytes > 1024 ? of.bytes : kBuffer),
          socket_(side.first() ? accept_one(side, family) : connect_one(side, family)) {
        const int on = 1;
        if (family == AF_INET &&
            setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
            fail("TCP_NODELAY");
    }

    std::byte* claim() { return out_.data(); }
    void post() {
        for (std::size_t at = 0; at < bytes_;)
            at += moved(::send(socket_.get(), out_.data() + at, bytes_ - at, kFlags));
    }
    const std::byte* take() {
        if (filled_ - at_ < bytes_) make_room();
        while (filled_ - at_ < bytes_) {
            const ssize_t count =
                recv(socket_.get(), in_.data() + filled_, in_.size() - filled_, kFlags);
            if (count == 0) throw std::runtime_error("the peer closed its socket");
            filled_ += moved(count);
        }
        return in_.data() + at_;
    }
    void release() { at_ += bytes_; }
    void progress() {}
    void finish() {}

  private:
    static constexpr int kFlags = MSG_NOSIGNAL | (sleeps ? 0 : MSG_DONTWAIT);
    static constexpr std::size_t kBuffer = 65536;  // of short messages, as many as have come
    static std::size_t moved(ssize_t count) {
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EAGAIN && errno != EINTR) fail("socket");
        return 0;
    }
    void make_room() {
        std::copy(in_.begin() + static_cast<std::ptrdiff_t>(at_),
                  in_.begin() + static_cast<std::ptrdiff_t>(filled_), in_.begin());
        filled_ -= at_;
        at_ = 0;
    }

    std::size_t bytes_, at_ = 0, filled_ = 0;
    std::vector<std::byte> out_, in_;
    File socket_;
};

}  // namespace

void add_sockets(Subjects& all) {
    add(all, "unix", run_case<SocketEnd<AF_UNIX, true>>, kMessageCases);
    add(all, "unix", run_case<SocketEnd<AF_UNIX, true>>, {&kWake});
    add(all, "unix_polled", run_case<SocketEnd<AF_UNIX, false>>, kMessageCases);
    add(all, "tcp", run_case<SocketEnd<AF_INET, true>>, kMessageCases);
    add(all, "tcp", run_case<SocketEnd<AF_INET, true>>, {&kWake});
    add(all, "tcp_polled", run_case<SocketEnd<AF_INET, false>>, kMessageCases);
    add(all, "tcp_polled", run_case<SocketEnd<AF_INET, false>>,
        {&kWireMessage8, &kWireWrite8, &kWire64k});
}

}  // namespace verbatim::bench
