// Notices doorbells while the engine thread sleeps: sets traps, makes rounds where one was sprung,
// and leaves them off while the program's calls announce its doorbells. Threads: any, unless a
// function says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "../../softnic/host/bell.hpp"
#include "doorbell_traps.hpp"
#include "engine_rounds.hpp"

namespace verbatim::uverbs {

class DoorbellWatch {
  public:
    using Clock = std::chrono::steady_clock;

    // `bell`: of the engine thread. Both must stay.
    DoorbellWatch(EngineRounds& rounds, const softnic::Bell& bell) noexcept
        : rounds_(rounds), bell_(bell), traps_({trapped, watch, this}) {}

    // Data path: a thread of the program is about to ring a doorbell, and will execute by itself
    // what that stands for.
    void expect_doorbell() noexcept {
        if (traps_.are_set()) [[unlikely]]
            spare_caller();
    }
    // The program has mapped register pages here. Called again: nothing.
    void add_registers(std::uintptr_t start, std::size_t bytes) noexcept {
        traps_.add(start, bytes);
    }
    void forgo_traps(const std::string& why) noexcept { traps_.forgo(why); }
    // The program may ring by itself from now on.
    void distrust() noexcept { direct_.store(true); }
    bool direct() const noexcept { return direct_.load(); }
    // Whether all register pages can be trapped that the program has mapped.
    bool works() const noexcept { return traps_.work(); }
    // Whether the program's calls announce its doorbells at this time, and for how long from then,
    // or for ever.
    bool trusts(Clock::time_point now) const noexcept;
    std::chrono::nanoseconds trusted_for(Clock::time_point now) const noexcept;

    // The engine thread, under the rounds' lock: a round.
    void look_round() noexcept { rounds_.look(state()); }
    // The engine thread, under the rounds' lock, before its last round: it is going to sleep.
    // `finds_requests`: rounds found some, and may do so again.
    void prepare_sleep(bool trusted, bool finds_requests) noexcept;
    // The engine thread: it does not sleep until it is called. First under the rounds' lock.
    void want_no_traps() noexcept { wants_traps_ = false; }
    void lift() noexcept { traps_.lift(); }

  private:
    Doorbells state() const noexcept;
    void spare_caller() noexcept;
    static void trapped(void* self) noexcept;
    static bool watch(void* self) noexcept;
    void serve_trap() noexcept;
    bool serve_watch() noexcept;
    bool find_requests() noexcept;
    void set_again() noexcept;

    EngineRounds& rounds_;
    const softnic::Bell& bell_;
    std::atomic<bool> direct_{false};
    std::atomic<Clock::duration> trusted_until_{};  // the program's calls announce its doorbells
    // Under the rounds' lock.
    bool wants_traps_ = false;
    bool opened_ = false;  // the register pages, since the last watch
    DoorbellTraps traps_;  // last: its thread uses the others
};

}  // namespace verbatim::uverbs
