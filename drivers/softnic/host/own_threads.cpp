// Counting and stopping of the library's own threads.
#include "own_threads.hpp"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>

namespace verbatim::softnic {
namespace {

// Between two looks whether the others are at rest: they may need this core to come there.
constexpr useconds_t kFirstLook = 20, kLastLook = 5000;
// Four of each device, and one.
constexpr std::size_t kMostThreads = 256;

// In static memory, which no program registers.
struct State {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
    // Guarded by mutex.
    std::array<pid_t, kMostThreads> ids{};  // 0: free
    std::size_t awake = 0;                  // those that were started and do not run yet, too
    bool still = false;
};
constinit State g_state;
[[gnu::tls_model("initial-exec")]] thread_local bool t_own = false;

class Lock {
  public:
    Lock() noexcept { pthread_mutex_lock(&g_state.mutex); }
    ~Lock() { pthread_mutex_unlock(&g_state.mutex); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
};

bool is_own(pid_t id) noexcept {
    const Lock lock;
    return std::ranges::find(g_state.ids, id) != g_state.ids.end();
}

void handle_forks() noexcept {
    static const int handlers = pthread_atfork([] { pthread_mutex_lock(&g_state.mutex); },
                                               [] { pthread_mutex_unlock(&g_state.mutex); },
                                               [] {  // the threads stayed in the parent
                                                   g_state.ids = {};
                                                   g_state.awake = 0;
                                                   g_state.still = false;
                                                   g_state.moved = PTHREAD_COND_INITIALIZER;
                                                   pthread_mutex_unlock(&g_state.mutex);
                                               });
    static_cast<void>(handlers);
}

}  // namespace

int start_own_thread(pthread_t& thread, void* (*entry)(void*), void* self, Faults faults) noexcept {
    handle_forks();
    {
        const Lock lock;
        ++g_state.awake;
    }
    // The thread inherits this mask.
    sigset_t all, before;
    sigfillset(&all);
    if (faults == Faults::taken) sigdelset(&all, SIGSEGV), sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int refused = pthread_create(&thread, nullptr, entry, self);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    const Lock lock;
    if (refused != 0) --g_state.awake;
    return refused;
}

OwnThread::OwnThread() noexcept {
    const Lock lock;
    t_own = true;
    // One that finds no room counts as the program's.
    const auto free = std::ranges::find(g_state.ids, 0);
    if (free != g_state.ids.end()) *free = gettid();
}

// A thread of the program is waiting for it to end.
OwnThread::~OwnThread() {
    const Lock lock;
    t_own = false;
    std::ranges::replace(g_state.ids, gettid(), 0);
    --g_state.awake;
}

AtRest::AtRest() noexcept {
    if (!t_own) return;
    const Lock lock;
    --g_state.awake;
}

AtRest::~AtRest() {
    if (!t_own) return;
    const Lock lock;
    while (g_state.still) pthread_cond_wait(&g_state.moved, &g_state.mutex);
    ++g_state.awake;
}

Standstill::Standstill(std::chrono::milliseconds patience) noexcept {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    {
        const Lock lock;
        if (g_state.still) return;  // another thread's
        g_state.still = true;
    }
    for (useconds_t pause = kFirstLook;; pause = std::min(2 * pause, kLastLook)) {
        {
            const Lock lock;
            reached_ = g_state.awake == 0;
        }
        if (reached_ || std::chrono::steady_clock::now() >= deadline) break;
        usleep(pause);
    }
    if (reached_) return;
    const Lock lock;
    g_state.still = false;
    pthread_cond_broadcast(&g_state.moved);
}

Standstill::~Standstill() {
    if (!reached_) return;
    const Lock lock;
    g_state.still = false;
    pthread_cond_broadcast(&g_state.moved);
}

bool Standstill::alone() const noexcept {
    DIR* const tasks = opendir("/proc/self/task");
    if (tasks == nullptr) return false;
    bool alone = true;
    while (const dirent* const task = readdir(tasks)) {
        const auto id = static_cast<pid_t>(std::strtol(task->d_name, nullptr, 10));
        if (id != 0 && id != gettid() && !is_own(id)) alone = false;
    }
    closedir(tasks);
    return alone;
}

}  // namespace verbatim::softnic
