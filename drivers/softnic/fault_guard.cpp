// The signal handler, and the way on to the program's own.
#include "fault_guard.hpp"

#include <signal.h>

#include <mutex>

namespace verbatim::softnic {
namespace {

// The program's handler is running; one that passes its signals on passes them to us.
[[gnu::tls_model("initial-exec")]] thread_local bool t_chaining = false;

constinit std::mutex g_mutex;
// What was there before. Written before ours is installed, under g_mutex.
constinit struct sigaction g_segmentation_before {
}, g_bus_before{};

void die_of(int signal) noexcept {
    struct sigaction standard {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);  // the same instruction faults again
}

void pass_on(int signal, siginfo_t* info, void* context) noexcept {
    const struct sigaction& before = signal == SIGBUS ? g_bus_before : g_segmentation_before;
    const bool standard = before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN;
    if (standard || t_chaining) return die_of(signal);
    t_chaining = true;
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(signal, info, context);
    else
        before.sa_handler(signal);
    t_chaining = false;
}

void handle(int signal, siginfo_t* info, void* context) noexcept {
    // A code above 0: the kernel's, about an access of this thread's.
    if (t_fault_frame != nullptr && info->si_code > 0) {
        t_chaining = false;
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
