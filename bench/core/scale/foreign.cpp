// One-sided writes from memory outside of arenas, in three modes: copied through a buffer of an
// arena, registered for each write, and registered once by a registration cache. A sample is twice
// the time until the write is done, as the report halves it. Source: Chang, §2.3, copy and pin.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <verbatim/core/one_sided.hpp>

#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

using Words = std::span<std::uint64_t>;

// What the writes come from, in turn: several pieces, so that small ones are not always in the
// first-level cache.
class Pieces {
  public:
    explicit Pieces(std::size_t bytes)
        : words_(bytes / 8),
          count_(std::clamp((std::size_t{1} << 20) / bytes, std::size_t{2}, std::size_t{64})),
          memory_(words_ * count_, 1) {}
    Words next(std::uint64_t round) {
        const Words piece = Words(memory_).subspan(round % count_ * words_, words_);
        piece.front() = piece.back() = round;
        return piece;
    }

  private:
    std::size_t words_, count_;
    std::vector<std::uint64_t> memory_;
};

class Writer {
  public:
    Writer(Many& many, Context& context, RemoteSpan<std::uint64_t> to)
        : many_(many),
          one_sided_(many[0]),
          to_(to),
          cache_(context),
          on_demand_(context, {.watch = false}),
          buffer_(static_cast<std::uint64_t*>(many[0].arena().allocate(to.size() * 8, 64)),
                  to.size()) {}
    void copy(Words piece) {
        std::memcpy(buffer_.data(), piece.data(), piece.size_bytes());
        write(std::span<const std::uint64_t>(buffer_));
    }
    void on_demand(Words piece) { write(on_demand_.acquire(piece), piece); }
    void registered(Words piece) { write(cache_.acquire(piece), piece); }

  private:
    void write(const Registered& lease, Words piece) { write(lease.local(piece)); }
    void write(const LocalSpan<const std::uint64_t>& from) {
        Operation operation;
        Errc error = Errc::ok;
        while ((error = one_sided_.try_write(from, to_, operation)) == Errc::would_block)
            many_.poll();
        if (error == Errc::ok)
            while ((error = one_sided_.result(operation)) == Errc::would_block) many_.poll();
        if (error != Errc::ok) throw Error(error, "benchmark", std::string(describe(error)));
    }

    Many& many_;
    OneSided one_sided_;
    RemoteSpan<std::uint64_t> to_;
    RegistrationCache cache_, on_demand_;
    Words buffer_;
};

// Memory of the second side that the first one writes.
RemoteSpan<std::uint64_t> lend(Side& side, Many& many, Words words, Grant& grant) {
    grant = Grant(many[0], std::as_writable_bytes(words), Access::remote_write);
    const std::string theirs =
        side.exchange({reinterpret_cast<const char*>(grant.extents().data()), sizeof(RemoteExtent)},
                      [&] { many.poll(); });
    return RemoteSpan<std::uint64_t>::parse(std::as_bytes(std::span(theirs))).value();
}

template <void (Writer::*kWrite)(Words)>
void write_often(Side& side, Writer& writer, std::size_t bytes) {
    Pieces pieces(bytes);
    const std::span<std::uint64_t> samples = side.samples();
    for (std::uint64_t round = 0; round < 64; ++round) (writer.*kWrite)(pieces.next(round));
    const std::uint64_t limit = __rdtsc() + side.budget_ticks();
    std::size_t count = 0;
    do {
        const Words piece = pieces.next(count);
        const std::uint64_t began = __rdtsc();
        (writer.*kWrite)(piece);
        samples[count] = 2 * (__rdtsc() - began);
    } while (++count < samples.size() && __rdtsc() < limit);
    side.report_samples(count);
}

template <void (Writer::*kWrite)(Words)>
void measure_mode(Side& side, const Case& of) {
    Many many(side);
    many.add(1);
    const Words there(static_cast<std::uint64_t*>(many[0].arena().allocate(of.bytes, 64)),
                      of.bytes / 8);
    Grant grant;
    const RemoteSpan<std::uint64_t> remote = lend(side, many, there, grant);
    if (side.first()) {
        Writer writer(many, many.context(), remote);
        write_often<kWrite>(side, writer, of.bytes);
    }
    many.meet();
    if (!side.first() && there.front() != there.back()) refuse_data();
    many.meet();
}

}  // namespace

void add_foreign(Subjects& all) {
    for (const Case& one : kForeign) {
        add(all, kModeCopy, measure_mode<&Writer::copy>, {&one});
        add(all, kModeOnDemand, measure_mode<&Writer::on_demand>, {&one});
        add(all, kModeRegistered, measure_mode<&Writer::registered>, {&one});
    }
}

}  // namespace verbatim::bench
