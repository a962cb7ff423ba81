// A second process for tests: forked, talks to the test over a socket, ends with the value its body
// returns.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <optional>
#include <type_traits>

namespace verbatim::softnic::test {

// One end of a stream between the two processes. Blocking; a closed peer or 20 s of silence is
// false.
class Wire {
  public:
    explicit Wire(int fd) : fd_(fd) {}
    ~Wire() { ::close(fd_); }
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    template <class T>
    bool put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        return ::send(fd_, &value, sizeof value, MSG_NOSIGNAL) ==
               static_cast<ssize_t>(sizeof value);
    }
    template <class T>
    bool get(T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        pollfd entry{fd_, POLLIN, 0};
        if (::poll(&entry, 1, 20000) != 1) return false;
        return ::recv(fd_, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value);
    }
    // Something was said, or the other process has ended.
    bool readable(int at_most_ms) {
        pollfd entry{fd_, POLLIN, 0};
        return ::poll(&entry, 1, at_most_ms) == 1;
    }
    // For steps: "go on now".
    bool signal() { return put('x'); }
    bool wait() {
        char step = 0;
        return get(step);
    }

  private:
    int fd_;
};

class Child {
  public:
    // `body` runs in the child and returns its exit code. It must not use the parent's devices.
    explicit Child(const std::function<int(Wire&)>& body) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
        pid_ = fork();
        if (pid_ == 0) {
            ::close(ends[0]);
            int code = 99;
            try {
                Wire wire(ends[1]);
                code = body(wire);
            } catch (const std::exception& error) {
                std::fprintf(stderr, "child: %s\n", error.what());
            }
            std::fflush(nullptr);
            _exit(code);
        }
        ::close(ends[1]);
        wire_.emplace(ends[0]);
    }
    ~Child() {
        if (pid_ < 0) return;
        kill(SIGKILL);
        reap();
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    Wire& wire() { return *wire_; }
    pid_t pid() const { return pid_; }
    void kill(int signal) const { ::kill(pid_, signal); }
    // Returns when it has stopped. False: it has ended.
    bool stop() const {
        kill(SIGSTOP);
        int status = 0;
        return waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
    }
    // Waits for the end. The exit code, or minus the signal.
    int reap() {
        int status = 0;
        const pid_t ended = waitpid(pid_, &status, 0);
        pid_ = -1;
        if (ended < 0) return -1000;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    }
    // False while it runs.
    bool try_reap(int& code) {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) == 0) return false;
        pid_ = -1;
        code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        return true;
    }
    // False if it does not end in time.
    bool reap_in_time(int& code) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!try_reap(code)) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            usleep(500);
        }
        return true;
    }

  private:
    pid_t pid_ = -1;
    std::optional<Wire> wire_;
};

// How a child ends that runs `act`. One that hangs is ended by its alarm: minus SIGALRM.
inline int status_in_child(const std::function<int()>& act) {
    Child child([&](Wire&) {
        alarm(20);
        return act();
    });
    return child.reap();
}

}  // namespace verbatim::softnic::test
