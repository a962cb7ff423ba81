// Floors: the same work by hand, in memory that both processes map; wake-ups by an eventfd.
#include <sys/eventfd.h>
#include <cstring>
#include <stdexcept>

#include "../../support/shared_memory.hpp"
#include "../subject.hpp"
#include "../workloads.hpp"
#include "landings.hpp"
#include "slots.hpp"

namespace verbatim::bench {
namespace {

// A process's own view of the landings, for SlotEnd.
class Mapped {
  public:
    Mapped(Side& side, std::size_t bytes) : landings_(side, bytes) {}
    std::byte* landing() { return landings_.own(); }
    void put_word(std::size_t offset, std::uint64_t value) {
        __atomic_store_n(reinterpret_cast<std::uint64_t*>(landings_.peer() + offset), value,
                         __ATOMIC_RELEASE);
    }
    void progress() {}
    void finish() {}

  protected:
    std::byte* peer() { return landings_.peer(); }

  private:
    Landings landings_;
};

// Messages are written where the receiver reads them.
struct InPlace : Mapped {
    using Mapped::Mapped;
    std::byte* source(std::size_t offset) { return peer() + offset; }
    void put(std::size_t, std::size_t) {}
};

// Messages are written into the sender's own memory and copied once.
class Copied : public Mapped {
  public:
    Copied(Side& side, std::size_t bytes) : Mapped(side, bytes), own_(bytes) {}
    std::byte* source(std::size_t offset) { return own_.data() + offset; }
    void put(std::size_t offset, std::size_t bytes) {
        std::memcpy(peer() + offset, source(offset), bytes);
    }

  private:
    std::vector<std::byte> own_;
};

// One word from core to core, a cache line for each direction.
class TwoLines {
  public:
    TwoLines(Side& side, const Case&) : landings_(side, 4096) {}
    std::byte* claim() { return reinterpret_cast<std::byte*>(&number_); }
    void post() { __atomic_store_n(word(landings_.peer()), number_, __ATOMIC_RELEASE); }
    const std::byte* take() {
        std::uint64_t value = 0;
        do value = __atomic_load_n(word(landings_.own()), __ATOMIC_ACQUIRE);
        while (value == seen_);
        seen_ = value;
        return reinterpret_cast<const std::byte*>(&seen_);
    }
    void release() {}
    void progress() {}
    void finish() {}

  private:
    static std::uint64_t* word(std::byte* at) { return reinterpret_cast<std::uint64_t*>(at); }

    Landings landings_;
    std::uint64_t number_ = 0, seen_ = 0;
};

// One cache line for both directions. The lowest bit says which side wrote it.
class OneLine {
  public:
    OneLine(Side& side, const Case&)
        : landings_(side, 4096),
          word_(
              reinterpret_cast<std::uint64_t*>(side.first() ? landings_.own() : landings_.peer())),
          mine_(side.first() ? 1 : 2) {}
    std::byte* claim() { return reinterpret_cast<std::byte*>(&number_); }
    void post() { __atomic_store_n(word_, number_ << 2 | mine_, __ATOMIC_RELEASE); }
    const std::byte* take() {
        std::uint64_t value = 0;
        do value = __atomic_load_n(word_, __ATOMIC_ACQUIRE);
        while ((value & 3) != 3 - mine_);
        seen_ = value >> 2 == kStop >> 2 ? kStop : value >> 2;
        return reinterpret_cast<const std::byte*>(&seen_);
    }
    void release() {}
    void progress() {}
    void finish() {}

  private:
    Landings landings_;
    std::uint64_t* word_;
    std::uint64_t mine_, number_ = 0, seen_ = 0;
};

template <class End>
std::uint64_t median_of_warm_up(Side& side, const Case& of) {
    End end(side, of);
    const std::size_t count = ping_pong(end, side, of.bytes, side.budget_ticks() / kWarmUpShare);
    if (count == 0) return 0;
    const std::span<std::uint64_t> samples = side.samples().first(count);
    std::ranges::nth_element(samples, samples.begin() + static_cast<std::ptrdiff_t>(count / 2));
    return samples[count / 2];
}

// Which way is faster depends on the machine, so the faster one counts.
template <class A, class B>
void run_faster(Side& side, const Case& of) {
    const std::uint64_t a = median_of_warm_up<A>(side, of), b = median_of_warm_up<B>(side, of);
    const std::string mine = a < b ? "a" : "b", theirs = side.exchange(mine);
    if ((side.first() ? mine : theirs) == "a")
        run_case<A>(side, of);
    else
        run_case<B>(side, of);
}

constexpr int kCopies = 16;  // between two looks at the clock

void copy_often(void* to, const std::vector<std::byte>& from) {
    for (int i = 0; i < kCopies; ++i) {
        std::memcpy(to, from.data(), from.size());
        asm volatile("" : : "r"(to) : "memory");
    }
}

// memcpy from the first process's memory to shared memory; the second stands by.
void copy(Side& side, const Case& of) {
    const SharedMemory to(of.bytes);
    const std::vector<std::byte> from(of.bytes, std::byte{7});
    copy_often(to.start(), from);
    const std::uint64_t began = __rdtsc();
    std::uint64_t count = 0, took = 0;
    for (; side.first() && took < side.budget_ticks(); count += kCopies) {
        copy_often(to.start(), from);
        took = __rdtsc() - began;
    }
    const double seconds = static_cast<double>(took) / ticks_per_microsecond() / 1e6;
    if (side.first()) side.report_rate(static_cast<double>(count) / seconds);
    (void)side.exchange("done");
}

// A reader that sleeps in read() on an eventfd, and the word that it is woken for.
class Bell {
  public:
    Bell(Side& side, const Case&)
        : own_(side.page().bells[side.first() ? 0 : 1]),
          peer_(side.page().bells[side.first() ? 1 : 0]),
          in_(word(side, side.first())),
          out_(word(side, !side.first())) {}
    std::byte* claim() { return reinterpret_cast<std::byte*>(out_); }
    void post() {
        if (eventfd_write(peer_, 1) != 0) throw std::runtime_error("eventfd_write failed");
    }
    const std::byte* take() {
        eventfd_t value = 0;
        if (eventfd_read(own_, &value) != 0) throw std::runtime_error("eventfd_read failed");
        return reinterpret_cast<const std::byte*>(in_);
    }
    void release() {}
    void progress() {}
    void finish() {}

  private:
    static std::uint64_t* word(Side& side, bool of_first) {
        MeetingPage& page = side.page();
        return of_first ? page.first_word.data() : page.second_word.data();
    }

    int own_, peer_;
    std::uint64_t *in_, *out_;
};

}  // namespace

void add_floors(Subjects& all) {
    add(all, "floor", run_faster<TwoLines, OneLine>,
        {&kMessage8, &kWrite8, &kHot16, &kArmed17, &kArmed64, &kArmed256, &kArmed512});
    add(all, "floor", run_faster<SlotEnd<InPlace>, SlotEnd<Copied>>,
        {&kMessage64, &kMessage1k, &kMessage64k, &kMessage1m});
    add(all, "floor", run_case<SlotEnd<InPlace>>, {&kRate8});
    add(all, "floor", copy, {&kThroughput1k, &kThroughput64k, &kThroughput1m});
    add(all, "by_hand", run_case<SlotEnd<Copied>>,
        {&kThroughput1k, &kThroughput64k, &kThroughput1m});
    add(all, "floor", run_case<Bell>, {&kWake});
}

}  // namespace verbatim::bench
