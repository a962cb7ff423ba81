// A second process of a test, which can be waited for and killed.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <type_traits>

namespace verbatim::interop {

// A process that does `work` and exits with what it returns, with 0 if that is nothing; killed at
// the end if it still runs.
class Child {
  public:
    template <class Work>
    explicit Child(Work&& work) : pid_(fork()) {
        if (pid_ != 0) return;
        int status = 1;
        try {
            if constexpr (std::is_void_v<decltype(work())>) {
                work();
                status = 0;
            } else {
                status = work();
            }
        } catch (const std::exception& error) {
            std::fprintf(stderr, "child: %s\n", error.what());
        }
        // As a program ends: without destroying anything.
        if (status == kExit) exit(0);
        _exit(status);
    }
    ~Child() {
        if (pid_ <= 0) return;
        end();
        waitpid(pid_, nullptr, 0);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    void send(int signal) const { kill(pid_, signal); }
    void end() const { send(SIGKILL); }
    // Returns when it has stopped.
    void stop() const {
        send(SIGSTOP);
        waitpid(pid_, nullptr, WUNTRACED);
    }
    // Its exit status, or -1 if it still runs after `patience`.
    int wait(std::chrono::seconds patience = std::chrono::seconds(10)) {
        const auto deadline = std::chrono::steady_clock::now() + patience;
        int status = 0;
        while (waitpid(pid_, &status, WNOHANG) == 0) {
            if (std::chrono::steady_clock::now() > deadline) return -1;
            usleep(1000);
        }
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

    static constexpr int kExit = 77, kSkipped = 78;

  private:
    pid_t pid_;
};

}  // namespace verbatim::interop
