// Looking at access words, and waiting for them.
#include "revocation.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include <verbatim/driver/log.hpp>

#include "../host/membarrier.hpp"

namespace verbatim::softnic {
namespace {

using Clock = std::chrono::steady_clock;

// A thread that copies leaves within 100 us; one that was preempted has its core back in some
// milliseconds.
constexpr int kYields = 200;
constexpr useconds_t kFirstNap = 50, kLastNap = 2000;
// Whether a process lives costs three system calls.
constexpr std::chrono::milliseconds kLookAtProcesses{5};

}  // namespace

Revocation::Revocation(AccessRegistry& registry, std::uint32_t queue_pair) noexcept
    : registry_(&registry), queue_pair_(queue_pair), looked_at_processes_(Clock::now()) {
    raise();
    look();
}

Revocation::Revocation(AccessRegistry& registry, const std::shared_ptr<AccessWord>& word) noexcept
    : registry_(&registry), complete_(true), looked_at_processes_(Clock::now()) {
    raise();
    note(word);
}

// Between the change and the look at the words.
void Revocation::raise() const noexcept {
    if (registry_->barriers())
        raise_barrier();
    else
        std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Revocation::look() noexcept {
    bool room = true;
    const bool visited = registry_->try_visit([&](const std::shared_ptr<AccessWord>& word) {
        room = count_ != kMost;
        if (room && (queue_pair_ == 0 || word->queue_pair() == queue_pair_)) note(word);
        return room;
    });
    complete_ = visited && room;
}

void Revocation::note(const std::shared_ptr<AccessWord>& word) noexcept {
    const std::uint64_t value = word->value();
    if ((value & 1) != 0) inside_[count_++] = {word, value};
}

bool Revocation::settled() noexcept {
    const auto now = Clock::now();
    const bool processes = now - looked_at_processes_ >= kLookAtProcesses;
    if (processes) looked_at_processes_ = now;
    drop_those_who_left(processes);
    // Those who enter meanwhile see what was revoked; waiting for them as well does no harm.
    if (count_ == 0 && !complete_) look();
    return count_ == 0 && complete_;
}

void Revocation::drop_those_who_left(bool look_at_processes) noexcept {
    for (std::size_t i = 0; i < count_;) {
        Inside& one = inside_[i];
        const bool there =
            one.word->value() == one.value && !(look_at_processes && one.word->writer_ended());
        if (there) {
            ++i;
            continue;
        }
        one = std::exchange(inside_[--count_], {});
    }
}

// Nobody is left but those who were waited for in vain.
bool Revocation::hopeless() const noexcept {
    return complete_ &&
           std::all_of(inside_.begin(), inside_.begin() + count_,
                       [](const Inside& one) { return one.word->given_up_on(one.value); });
}

bool Revocation::wait() noexcept {
    const auto deadline = Clock::now() + registry_->patience();
    useconds_t nap = kFirstNap;
    for (int looks = 0; !settled(); ++looks) {
        if (looks < kYields) {
            sched_yield();
            continue;
        }
        drop_those_who_left(true);
        if (count_ != 0 && (hopeless() || Clock::now() >= deadline)) {
            give_up();
            return false;
        }
        usleep(nap);
        nap = std::min(2 * nap, kLastNap);
    }
    return true;
}

void Revocation::give_up() noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
        const Inside& one = inside_[i];
        if (one.word->given_up_on(one.value)) continue;
        one.word->give_up_on(one.value);
        const auto writer = one.word->writer();
        log::error(
            "software NIC: process {} does not go on in the middle of a copy through queue pair {} "
            "(is it stopped?); memory that was taken from it is not free before it does, or ends",
            writer == nullptr ? getpid() : writer->number(), one.word->queue_pair());
    }
}

}  // namespace verbatim::softnic
