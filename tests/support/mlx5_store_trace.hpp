// Which of a device's areas a function stored to, and where its fences stood, in the order in which
// the processor executed them. A missing fence changes no result on x86 with ordinary memory, so
// only the instructions can tell; this looks at those that really run, inlined and optimised as
// they are, one by one by means of the processor's trap flag. Threads: one trace at a time.
#pragma once

#include <signal.h>
#include <ucontext.h>
#include <x86gprintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::mlx5::test {

class StoreTrace {
  public:
    struct Area {
        std::string name;
        const volatile void* begin;
        std::size_t bytes;
    };
    static constexpr std::size_t kFence = ~std::size_t{0};
    struct Event {
        std::size_t area;    // index of the area stored to, or kFence
        std::size_t offset;  // of the first byte that changed
    };

    explicit StoreTrace(std::vector<Area> areas) : areas_(std::move(areas)) {
        for (const Area& area : areas_) before_.emplace_back(area.bytes);
    }
    StoreTrace(const StoreTrace&) = delete;
    StoreTrace& operator=(const StoreTrace&) = delete;

    // Called once after each store to an area, before the next instruction: a device that acts at
    // the worst moment.
    void (*after_store)(void* context, std::size_t area) noexcept = nullptr;
    void* context = nullptr;

    // Runs `work` step by step. A store is seen by what it changes: fill the areas with what it
    // will not write.
    template <class Work>
    void run(Work&& work) {
        for (std::size_t i = 0; i < areas_.size(); ++i) remember(i);
        count_ = 0;
        current_ = this;
        struct sigaction stepping {};
        struct sigaction previous {};
        stepping.sa_sigaction = on_trap;
        stepping.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &stepping, &previous);
        const unsigned long long flags = __readeflags();
        asm volatile("" ::: "memory");
        __writeeflags(flags | kTrapFlag);
        work();
        __writeeflags(flags & ~kTrapFlag);
        asm volatile("" ::: "memory");
        sigaction(SIGTRAP, &previous, nullptr);
        current_ = nullptr;
    }

    std::span<const Event> events() const { return std::span(events_).first(count_); }
    // "ring record fence": one word for each unbroken run of stores to one area.
    std::string order() const {
        std::string text;
        std::size_t last = kFence;
        for (const Event& event : events()) {
            if (event.area != kFence && event.area == last) continue;
            if (!text.empty()) text += ' ';
            text += event.area == kFence ? "fence" : areas_[event.area].name;
            last = event.area;
        }
        return count_ == events_.size() ? text + " and more" : text;
    }

  private:
    static constexpr unsigned long long kTrapFlag = 0x100;

    static void on_trap(int, siginfo_t*, void* where) noexcept {
        const auto* machine = static_cast<const ucontext_t*>(where);
        const auto next = static_cast<std::uintptr_t>(machine->uc_mcontext.gregs[REG_RIP]);
        if (current_ != nullptr) current_->step(reinterpret_cast<const std::uint8_t*>(next));
    }

    // After one instruction, before the one at `next`.
    void step(const std::uint8_t* next) noexcept {
        for (std::size_t i = 0; i < areas_.size(); ++i) {
            const auto* now =
                static_cast<const std::byte*>(const_cast<const void*>(areas_[i].begin));
            if (std::memcmp(now, before_[i].data(), areas_[i].bytes) == 0) continue;
            std::size_t offset = 0;
            while (now[offset] == before_[i][offset]) ++offset;
            note({i, offset});
            if (after_store != nullptr) after_store(context, i);
            remember(i);
        }
        // sfence is 0f ae /7 with a register operand.
        if (next[0] == 0x0f && next[1] == 0xae && next[2] >= 0xf8) note({kFence, 0});
    }
    void note(Event event) noexcept {
        if (count_ < events_.size()) events_[count_++] = event;
    }
    void remember(std::size_t i) noexcept {
        std::memcpy(before_[i].data(), const_cast<const void*>(areas_[i].begin), areas_[i].bytes);
    }

    static inline StoreTrace* current_ = nullptr;  // a signal handler has no other way to find it

    std::vector<Area> areas_;
    std::vector<std::vector<std::byte>> before_;
    std::array<Event, 512> events_;
    std::size_t count_ = 0;
};

}  // namespace verbatim::mlx5::test
