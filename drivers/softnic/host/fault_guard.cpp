// The signal handler, and the way on to the program's own.
#include "fault_guard.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace verbatim::softnic {
namespace {

// The signal that the program's handler has last had from here, and from which frame. One that
// passes its signals on passes them to us, in a deeper one; one that leaves by siglongjmp() leaves
// this as it is.
struct Passed {
    const void* context;
    const void* frame;
};
[[gnu::tls_model("initial-exec")]] constinit thread_local Passed t_passed{};

constinit std::mutex g_mutex;
// What was there before. Written before ours is installed, under g_mutex.
constinit struct sigaction g_segmentation_before {
}, g_bus_before{};

// A code above 0: the kernel's, about an access of this thread's. Else somebody sent it.
bool is_fault(const siginfo_t& info) noexcept { return info.si_code > 0; }

void die_of(int signal, siginfo_t& info) noexcept {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);  // the same instruction faults again
    if (!is_fault(info)) syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, &info);
}

// As the kernel does before it calls a handler; it undoes that, too.
void block_for(const struct sigaction& handler, int signal) noexcept {
    sigset_t blocked = handler.sa_mask;
    if ((handler.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
    const struct sigaction& before = signal == SIGBUS ? g_bus_before : g_segmentation_before;
    // A fault cannot be ignored.
    if (before.sa_handler == SIG_IGN && !is_fault(*info)) return;
    const bool standard = before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN;
    const void* const frame = __builtin_frame_address(0);
    const bool returned = t_passed.context == context && frame < t_passed.frame;
    if (standard || returned) return die_of(signal, *info);
    const Passed outer = std::exchange(t_passed, {context, frame});
    block_for(before, signal);
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal, info, context);
    else
        before.sa_handler(signal);
    t_passed = outer;
}

void handle(int signal, siginfo_t* info, void* context) noexcept {
    if (t_fault_frame != nullptr && is_fault(*info)) {
        t_fault_frame->address = info->si_addr;
        __builtin_longjmp(t_fault_frame->registers, 1);
    }
    pass_on(signal, info, context);
}

void install(int signal, struct sigaction& before) noexcept {
    struct sigaction now {};
    if (sigaction(signal, nullptr, &now) != 0) return;
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == handle) return;
    before = now;
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    // Nothing is blocked in it, so leaving it needs no other mask.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | (now.sa_flags & SA_ONSTACK);
    sigemptyset(&ours.sa_mask);
    sigaction(signal, &ours, nullptr);
}

}  // namespace

constinit thread_local FaultFrame* t_fault_frame = nullptr;

void guard_against_faults() noexcept {
    const std::lock_guard lock(g_mutex);
    install(SIGSEGV, g_segmentation_before);
    install(SIGBUS, g_bus_before);
}

}  // namespace verbatim::softnic
