// Looking up, and trying one address behind the other.
#include "tcp_call.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include <verbatim/driver/errno_text.hpp>

namespace verbatim {
namespace {

[[noreturn]] void cannot_connect(const HostPort& to, int error) {
    if (error == ETIMEDOUT)
        throw Error(Errc::timeout, to.text(), "nobody answered in time",
                    "check the address and firewalls, or raise timeout of [connect]");
    if (error == ECONNREFUSED)
        throw Error(Errc::connection_refused, to.text(), "nobody listens there",
                    "start the receiver first, and check the port");
    if (error == ECONNRESET)
        throw Error(Errc::protocol_error, to.text(),
                    "what listens there hung up: it is not Verbatim", "check host and port");
    throw Error(Errc::connection_refused, to.text(), errno_text(error), "check the address");
}

}  // namespace

TcpCall::TcpCall(HostPort to, Deadline deadline)
    : to_(std::move(to)), deadline_(deadline), addresses_(tcp::numeric_addresses(to_)) {
    next_ = addresses_.get();
    if (next_ == nullptr) lookup_.emplace([to = to_] { return tcp::resolve(to, 0); });
}

bool TcpCall::has_looked_up() {
    if (!lookup_) return true;
    if (!lookup_->is_over()) return false;
    addresses_ = lookup_->get();
    next_ = addresses_.get();
    lookup_.reset();
    return true;
}

bool TcpCall::go_on() {
    if (!has_looked_up()) return false;
    error_ = socket_ ? progress() : EADDRNOTAVAIL;
    while (error_ != 0 && error_ != EINPROGRESS) {
        if (next_ == nullptr) cannot_connect(to_, error_);
        error_ = begin(*std::exchange(next_, next_->ai_next));
    }
    if (error_ != 0) return false;
    tcp::tune(socket_);
    return true;
}

int TcpCall::begin(const addrinfo& address) noexcept {
    socket_ =
        Descriptor(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket_) return errno;
    const bool is_made = ::connect(socket_.get(), address.ai_addr, address.ai_addrlen) == 0;
    return is_made ? 0 : errno == EINPROGRESS ? progress() : errno;
}

// 0, EINPROGRESS, or why it failed.
int TcpCall::progress() noexcept {
    pollfd entry{socket_.get(), POLLOUT, 0};
    if (poll(&entry, 1, 0) <= 0) return deadline_.passed() ? ETIMEDOUT : EINPROGRESS;
    int error = 0;
    socklen_t length = sizeof error;
    return getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

pollfd TcpCall::waits_for() const noexcept {
    if (lookup_) return {lookup_->descriptor(), POLLIN, 0};
    return {socket_.get(), POLLOUT, 0};
}

}  // namespace verbatim
