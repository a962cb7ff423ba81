// Listening at a path without taking it from another listener. All look, remove and bind under a
// lock of the directory, so that two of them never take each other's new socket for an old one.
#include "unix_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include <fmt/format.h>

#include <verbatim/driver/errno_text.hpp>
#include <verbatim/driver/log.hpp>

#include "tcp_call.hpp"

namespace verbatim {
namespace {

constexpr std::chrono::milliseconds kForTheLock{2000}, kPause{10};

Descriptor open_socket() {
    return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

// Nothing where the directory cannot be locked: then without.
Descriptor lock_directory_of(const std::string& path) noexcept {
    std::string directory = std::filesystem::path(path).parent_path();
    if (directory.empty()) directory = ".";
    Descriptor file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const Deadline limit = Deadline::after(kForTheLock);
    while (file && flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || limit.passed()) return Descriptor();
        std::this_thread::sleep_for(kPause);
    }
    return file;
}

[[noreturn]] void cannot_listen_at(const UnixName& at, int error) {
    const bool is_forbidden = error == EACCES || error == EPERM || error == EROFS;
    throw Error(is_forbidden ? Errc::permission_denied : Errc::device_error,
                "listener " + at.text(), errno_text(error),
                error == EADDRINUSE
                    ? "another program listens there: end it, or choose another name"
                    : "choose a path in a directory that this user may write");
}

// Nobody listens at that file. Throws Error(invalid_argument): it is no socket.
bool is_stale(const UnixName& at) {
    struct stat status {};
    if (lstat(at.path.c_str(), &status) != 0) return errno == ENOENT;
    if (!S_ISSOCK(status.st_mode))
        throw Error(Errc::invalid_argument, "listener " + at.text(),
                    "a file that is no socket is there", "choose another path, or remove the file");
    const Descriptor probe = open_socket();
    const auto to = at.socket();
    return probe && ::connect(probe.get(), to.get(), to.bytes) != 0 && errno == ECONNREFUSED;
}

// 0, or why not.
int bind_to(const Descriptor& socket, const UnixName& at) {
    const auto own = at.socket();
    if (bind(socket.get(), own.get(), own.bytes) == 0) return 0;
    const int error = errno;
    if (error != EADDRINUSE || at.is_abstract() || !is_stale(at)) return error;
    log::info("{}: the socket file of a listener that has ended is replaced", at.text());
    if (unlink(at.path.c_str()) != 0 && errno != ENOENT) return errno;
    return bind(socket.get(), own.get(), own.bytes) == 0 ? 0 : errno;
}

}  // namespace

SocketFile::SocketFile(std::string path) : path_(std::move(path)), owner_(getpid()) {
    if (lstat(path_.c_str(), &made_) != 0) path_.clear();
}

SocketFile::~SocketFile() {
    if (path_.empty() || owner_ != getpid()) return;
    const Descriptor lock = lock_directory_of(path_);
    struct stat now {};
    const bool is_ours =
        lstat(path_.c_str(), &now) == 0 && now.st_dev == made_.st_dev && now.st_ino == made_.st_ino;
    if (is_ours) (void)unlink(path_.c_str());
}

unix_socket::Bound unix_socket::listen(const UnixName& at) {
    Bound bound;
    const Descriptor lock = at.is_abstract() ? Descriptor() : lock_directory_of(at.path);
    bound.socket = open_socket();
    // Before it has a name: the file is made with these rights.
    int error = bound.socket && fchmod(bound.socket.get(), 0600) == 0 ? 0 : errno;
    if (error == 0) error = bind_to(bound.socket, at);
    if (error != 0) cannot_listen_at(at, error);
    if (!at.is_abstract()) bound.file = SocketFile(at.path);
    if (::listen(bound.socket.get(), SOMAXCONN) != 0) cannot_listen_at(at, errno);
    return bound;
}

bool UnixCall::go_on() {
    again_ = Deadline::never();
    socket_ = open_socket();
    const auto there = to_.socket();
    if (socket_ && ::connect(socket_.get(), there.get(), there.bytes) == 0) return true;
    const int error = errno;
    if (error == EAGAIN && !deadline_.passed()) {
        again_ = Deadline::after(kPause);
        return false;
    }
    if (error == EAGAIN)
        throw Error(Errc::timeout, to_.text(), "the listener takes no callers",
                    "see whether it is stopped, or raise timeout of [connect]");
    if (error == ECONNREFUSED || error == ENOENT)
        throw Error(Errc::connection_refused, to_.text(), "nobody listens there",
                    "start the receiver first, and check the path");
    throw Error(
        error == EACCES || error == EPERM ? Errc::permission_denied : Errc::connection_refused,
        to_.text(), errno_text(error), "check the path, and run as the user who listens");
}

std::unique_ptr<Call> make_call(const Address& to, Deadline deadline) {
    if (const auto* name = std::get_if<UnixName>(&to))
        return std::make_unique<UnixCall>(*name, deadline);
    return std::make_unique<TcpCall>(std::get<HostPort>(to), deadline);
}

}  // namespace verbatim
