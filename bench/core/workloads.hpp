// What every subject does, the same for all: ping-pong, stream, wake-up.
#pragma once

#include <emmintrin.h>
#include <x86gprintrin.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "../support/cores.hpp"
#include "data.hpp"
#include "subject.hpp"

namespace verbatim::bench {

inline constexpr std::uint64_t kWarmUpShare = 10;  // of the budget, one part
inline constexpr double kPauseMicroseconds = 100;  // longer than anyone spins before sleeping

template <class End>
void send(End& end, std::size_t bytes, std::uint64_t number) {
    write_all(end.claim(), bytes, number);
    end.post();
}

template <class End>
std::uint64_t receive(End& end, std::size_t bytes) {
    const std::uint64_t number = read_all(end.take(), bytes);
    end.release();
    return number;
}

inline void pause_until(std::uint64_t when) {
    while (__rdtsc() < when) _mm_pause();
}

inline std::uint64_t pause_ticks() {
    return static_cast<std::uint64_t>(kPauseMicroseconds * ticks_per_microsecond());
}

// ---- ping-pong ----

template <class End>
std::uint64_t round_trip(End& end, std::size_t bytes, std::uint64_t number) {
    const std::uint64_t began = __rdtsc();
    send(end, bytes, number);
    const std::uint64_t answer = receive(end, bytes);
    const std::uint64_t took = __rdtsc() - began;
    if (answer != number) refuse_data();
    return took;
}

// Round trips until the samples are full or the time is up; returns their count.
template <class End>
std::size_t ping(End& end, std::size_t bytes, std::span<std::uint64_t> samples,
                 std::uint64_t budget) {
    const std::uint64_t limit = __rdtsc() + budget;
    std::size_t count = 0;
    do samples[count] = round_trip(end, bytes, count + 1);
    while (++count < samples.size() && __rdtsc() < limit);
    send(end, bytes, kStop);
    if (receive(end, bytes) != kStop) refuse_data();
    return count;
}

template <class End>
void echo(End& end, std::size_t bytes) {
    for (std::uint64_t number = 0; number != kStop;) {
        number = receive(end, bytes);
        send(end, bytes, number);
    }
}

// Both sides. Returns the first side's count of samples.
template <class End>
std::size_t ping_pong(End& end, Side& side, std::size_t bytes, std::uint64_t budget) {
    if (side.first()) return ping(end, bytes, side.samples(), budget);
    echo(end, bytes);
    return 0;
}

template <class End>
void latency(End& end, Side& side, const Case& of) {
    ping_pong(end, side, of.bytes, side.budget_ticks() / kWarmUpShare);
    const std::size_t count = ping_pong(end, side, of.bytes, side.budget_ticks());
    if (side.first()) side.report_samples(count);
}

// ---- stream ----

// Returns the messages per second, until the receiver has said that it has them all.
template <class End>
double pour(End& end, std::size_t bytes, std::uint64_t budget) {
    const std::uint64_t look = bytes > 1024 ? 1 : 256;  // messages between two looks at the clock
    const std::uint64_t began = __rdtsc();
    std::uint64_t count = 0;
    do {
        stamp(end.claim(), bytes, ++count);
        end.post();
    } while (count % look != 0 || __rdtsc() - began < budget);
    stamp(end.claim(), bytes, kStop);
    end.post();
    end.finish();
    const std::uint64_t arrived = read_stamp(end.take(), bytes);
    const auto took = static_cast<double>(__rdtsc() - began);
    end.release();
    if (arrived != count) refuse_data();
    return static_cast<double>(count) / took * ticks_per_microsecond() * 1e6;
}

template <class End>
void drain(End& end, std::size_t bytes) {
    std::uint64_t count = 0, number = 0;
    while ((number = read_stamp(end.take(), bytes)) == ++count) end.release();
    end.release();
    if (number != kStop) refuse_data();
    stamp(end.claim(), bytes, count - 1);
    end.post();
    end.finish();
}

template <class End>
void stream(End& end, Side& side, const Case& of) {
    for (const std::uint64_t share : {kWarmUpShare, std::uint64_t{1}}) {
        if (side.first())
            side.report_rate(pour(end, of.bytes, side.budget_ticks() / share));
        else
            drain(end, of.bytes);
    }
}

// ---- wake-up: each side sleeps while the other pauses ----

template <class End>
void answer_late(End& end, std::size_t bytes) {
    while (true) {
        const std::uint64_t number = receive(end, bytes);
        const std::uint64_t began = __rdtsc();
        pause_until(began + pause_ticks());
        std::byte* answer = end.claim();
        words(answer)[0] = number == kStop ? kStop : __rdtsc() - began;  // how long it held it
        end.post();
        if (number == kStop) return;
    }
}

// Samples are round trips without the peer's pause: two wake-ups.
template <class End>
std::size_t wake_often(End& end, Side& side, std::size_t bytes) {
    const std::span<std::uint64_t> samples = side.samples();
    const std::uint64_t limit = __rdtsc() + side.budget_ticks();
    std::size_t count = 0;
    do {
        pause_until(__rdtsc() + pause_ticks());
        const std::uint64_t began = __rdtsc();
        send(end, bytes, count + 1);
        const std::uint64_t held = receive(end, bytes), took = __rdtsc() - began;
        if (held > took) refuse_data();
        samples[count] = took - held;
    } while (++count < samples.size() && __rdtsc() < limit);
    send(end, bytes, kStop);
    if (receive(end, bytes) != kStop) refuse_data();
    return count;
}

template <class End>
void wake(End& end, Side& side, const Case& of) {
    if (side.first())
        side.report_samples(wake_often(end, side, of.bytes));
    else
        answer_late(end, of.bytes);
}

// A subject's run with ends of one class.
template <class End>
void run_case(Side& side, const Case& of) {
    End end(side, of);
    std::ranges::fill(side.samples(), 0);  // page faults belong to nobody's sample
    (void)side.exchange("ready", [&end] { end.progress(); });
    if (of.kind == Kind::latency)
        latency(end, side, of);
    else if (of.kind == Kind::wake)
        wake(end, side, of);
    else
        stream(end, side, of);
    end.finish();
    (void)side.exchange("done", [&end] { end.progress(); });
}

}  // namespace verbatim::bench
