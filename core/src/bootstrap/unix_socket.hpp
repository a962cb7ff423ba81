// Unix sockets: listening at a path, whose file goes with the listener, and calling. Control path.
// Threads: one at a time.
#pragma once

#include <sys/stat.h>

#include <string>

#include "address.hpp"
#include "call.hpp"

namespace verbatim {

// The file of a listener's Unix socket. It is removed at the end, if it is still the same one.
class SocketFile {
  public:
    SocketFile() = default;
    // Of a socket that is bound there.
    explicit SocketFile(std::string path);
    SocketFile(SocketFile&& other) noexcept
        : path_(std::exchange(other.path_, {})), made_(other.made_), owner_(other.owner_) {}
    SocketFile& operator=(SocketFile&& other) noexcept {
        std::swap(path_, other.path_);
        std::swap(made_, other.made_);
        std::swap(owner_, other.owner_);
        return *this;
    }
    ~SocketFile();

  private:
    std::string path_;  // empty: none
    struct stat made_ {};
    pid_t owner_ = 0;  // a forked child leaves the file alone
};

namespace unix_socket {

struct Bound {
    Descriptor socket;
    SocketFile file;
};
// Its file has mode 0600. One that nobody listens at any more is replaced. Throws Error:
// device_error (in use, no directory), invalid_argument (something else is there),
// permission_denied.
Bound listen(const UnixName& at);

}  // namespace unix_socket

class UnixCall final : public Call {
  public:
    UnixCall(UnixName to, Deadline deadline) : to_(std::move(to)), deadline_(deadline) {}
    bool go_on() override;
    pollfd waits_for() const noexcept override { return {-1, 0, 0}; }
    Deadline wakes_at() const noexcept override { return again_; }
    SideChannel take() override { return SideChannel::over(std::move(socket_)); }

  private:
    UnixName to_;
    Deadline deadline_;
    Deadline again_;  // the listener's queue was full
    Descriptor socket_;
};

}  // namespace verbatim
