// The thread's rounds and sleeps.
#include "engine_thread.hpp"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "../../softnic/host/own_threads.hpp"
#include "prompt_thread.hpp"

namespace verbatim::uverbs {

EngineThread::EngineThread(bool may_trap)
    : bell_(softnic::SharedMemory::create("verbatim-bell", softnic::Bell::kBytes, true)),
      may_trap_(may_trap),
      rounds_(queues_),
      naps_(rounds_, queues_),
      doorbells_(rounds_, bell_) {}

EngineThread::~EngineThread() {
    if (generation_ != softnic::fork_generation()) return;  // the thread stayed in the parent
    stop_.store(true);
    bell_.ring();
    if (thread_) pthread_join(*thread_, nullptr);
}

void EngineThread::start() {
    const std::lock_guard lock(mutex_);
    if (thread_) return;
    pthread_t thread;
    const int refused = softnic::start_own_thread(thread, entry, this, softnic::Faults::taken);
    if (refused != 0) throw std::system_error(refused, std::generic_category());
    thread_ = thread;
}

void* EngineThread::entry(void* self) {
    const softnic::OwnThread own;
    pthread_setname_np(pthread_self(), "verbatim-engine");
    make_prompt();
    static_cast<EngineThread*>(self)->run();
    return nullptr;
}

void EngineThread::run() {
    while (!stop_.load()) {
        Nap nap = look_round();
        // A program that polls finds by itself what peers have for it: they are not to call.
        if (naps_.program_polls()) {
            doorbells_.lift();
            const softnic::AtRest rest;
            std::this_thread::sleep_for(nap);
            continue;
        }
        bell_.lie_down();
        nap = prepare_sleep(nap);
        const softnic::AtRest rest;
        if (!stop_.load()) bell_.sleep(nap);
    }
}

EngineThread::Nap EngineThread::look_round() noexcept {
    const std::lock_guard lock(rounds_);
    doorbells_.look_round();
    const Nap nap = naps_.choose(polls_.load(std::memory_order_relaxed),
                                 posts_.load(std::memory_order_relaxed), doorbells_.works());
    if (naps_.program_polls()) doorbells_.want_no_traps();
    return nap;
}

// What came before the traps were set, and before peers could see that this thread sleeps, is found
// here.
EngineThread::Nap EngineThread::prepare_sleep(Nap nap) noexcept {
    const std::lock_guard lock(rounds_);
    const auto now = DoorbellWatch::Clock::now();
    const bool trusted = doorbells_.trusts(now);
    doorbells_.prepare_sleep(trusted, naps_.finds_requests());
    const std::uint32_t found_before = rounds_.requests_found();
    doorbells_.look_round();
    if (!doorbells_.works()) return nap;
    nap = naps_.choose_sleep(rounds_.requests_found() != found_before, doorbells_.direct());
    return trusted ? std::min(nap, doorbells_.trusted_for(now)) : nap;
}

}  // namespace verbatim::uverbs
