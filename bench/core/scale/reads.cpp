// One-sided reads of the peer's memory: one of 64 bytes, and a hundred keys by one list or one
// after the other, prepared or not. A sample is twice the time of all of them, as the report halves
// it.
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

#include <verbatim/core/prepared.hpp>

#include "../../support/reserved_pages.hpp"
#include "../workloads.hpp"
#include "many.hpp"

namespace verbatim::bench {
namespace {

constexpr std::size_t kLine = 64;
// Few keys, in the caches and the TLB; many, in neither.
constexpr std::size_t kNear = 4096, kFar = std::size_t{4} << 20;

struct Value {
    std::uint64_t words[kLine / 8];
};

// Memory that the first side reads, lent by the second.
class Table {
  public:
    Table(Side& side, Many& many, Arena& arena, std::size_t keys) : connection_(many[0]) {
        auto* const values = static_cast<Value*>(arena.allocate(keys * sizeof(Value), kLine));
        values_ = {values, keys};
        for (std::size_t i = 0; i < keys; ++i) values_[i].words[0] = side.first() ? 0 : i;
        grant_ = Grant(connection_, std::as_writable_bytes(values_), Access::remote_read);
        const std::string theirs = side.exchange(
            {reinterpret_cast<const char*>(grant_.extents().data()), sizeof(RemoteExtent)},
            [&] { many.poll(); });
        remote = RemoteSpan<Value>::parse(std::as_bytes(std::span(theirs))).value();
    }
    std::span<Value> here() const noexcept { return values_; }

    RemoteSpan<Value> remote;

  private:
    Connection& connection_;
    std::span<Value> values_;
    Grant grant_;
};

// Keys that lie apart, each time others.
std::size_t key_of(std::size_t keys, std::size_t round, std::size_t i) {
    if (keys == kNear) return (round * 61 + i * 37) % kNear;
    return (round * 100 + i) * 2654435761u % keys;
}

class Reader {
  public:
    Reader(Many& many, const Table& table) : many_(many), table_(table), one_sided_(many[0]) {}
    void read_one_by_one(std::size_t round, std::size_t keys) {
        for (std::size_t i = 0; i < keys; ++i) {
            Operation one;
            require(one_sided_.try_read(table_.remote[key_of(table_.remote.size(), round, i)],
                                        table_.here().subspan(i, 1), one));
            wait(one);
        }
    }
    void read_list(std::size_t round, std::size_t keys) {
        list_reads(round, keys);
        Operation all;
        Errc error = Errc::ok;
        while ((error = one_sided_.try_read_all(reads_, all)) == Errc::would_block) many_.poll();
        require(error);
        wait(all);
    }
    void read_prepared(std::size_t round, std::size_t keys) {
        if (!single_) single_.emplace(one_sided_, table_.remote, table_.here().first(1));
        for (std::size_t i = 0; i < keys; ++i) {
            require(single_->execute(key_of(table_.remote.size(), round, i)));
            wait(single_->last());
        }
    }
    // Only the addresses change from round to round.
    void read_prepared_list(std::size_t round, std::size_t keys) {
        if (!list_) {
            list_reads(round, keys);
            list_.emplace(one_sided_, reads_);
        }
        for (std::size_t i = 0; i < keys; ++i) require(list_->set(i, read_of(round, i)));
        Errc error = Errc::ok;
        while ((error = list_->execute()) == Errc::would_block) many_.poll();
        require(error);
        wait(list_->last());
    }
    void check(std::size_t round, std::size_t keys) const {
        for (std::size_t i = 0; i < keys; ++i)
            if (table_.here()[i].words[0] != key_of(table_.remote.size(), round, i)) refuse_data();
    }

  private:
    RemoteRead read_of(std::size_t round, std::size_t i) const {
        return {table_.remote[key_of(table_.remote.size(), round, i)].extent(),
                reinterpret_cast<std::byte*>(&table_.here()[i])};
    }
    void list_reads(std::size_t round, std::size_t keys) {
        reads_.resize(keys);
        for (std::size_t i = 0; i < keys; ++i) reads_[i] = read_of(round, i);
    }
    static void require(Errc error) {
        if (error != Errc::ok) throw Error(error, "benchmark", std::string(describe(error)));
    }
    void wait(const Operation& operation) {
        Errc error = Errc::ok;
        while ((error = one_sided_.result(operation)) == Errc::would_block) many_.poll();
        require(error);
    }

    Many& many_;
    const Table& table_;
    OneSided one_sided_;
    std::vector<RemoteRead> reads_;
    std::optional<PreparedRead<Value>> single_;
    std::optional<PreparedReads> list_;
};

using Read = void (Reader::*)(std::size_t, std::size_t);

void read_often(Side& side, Reader& reader, Read read, std::size_t keys) {
    const std::span<std::uint64_t> samples = side.samples();
    std::ranges::fill(samples, 0);  // page faults belong to nobody's sample
    (reader.*read)(0, keys);        // maps the peer's memory
    const std::uint64_t limit = __rdtsc() + side.budget_ticks();
    std::size_t count = 0;
    for (std::size_t round = 0; count < samples.size() && __rdtsc() < limit; ++round) {
        const std::uint64_t began = __rdtsc();
        (reader.*read)(round, keys);
        samples[count++] = 2 * (__rdtsc() - began);
        reader.check(round, keys);
    }
    side.report_samples(count);
}

template <Read kRead>
void measure(Side& side, const Case& of) {
    Many many(side);
    many.add(1);
    {
        const Table table(side, many, many[0].arena(), kNear);
        if (side.first()) {
            Reader reader(many, table);
            read_often(side, reader, kRead, of.bytes / kLine);
        }
        many.meet();
    }
    many.meet();
}

// Of a table of 256 MiB on pages of one size.
constexpr std::size_t kTableBytes = kFar * sizeof(Value), kHugePage = std::size_t{2} << 20;
template <PageChoice kPages>
void measure_far(Side& side, const Case& of) {
    std::optional<ReservedPages> reserved;
    if (kPages == PageChoice::huge_2m && !side.first()) {
        reserved.emplace(kHugePage, kTableBytes / kHugePage);
        if (!reserved->suffices()) throw std::runtime_error("no huge pages (root and memory)");
    }
    Config config = Many::default_config();
    config.named_arenas.push_back({.name = "table",
                                   .segment_bytes = kTableBytes,
                                   .max_bytes = kTableBytes,
                                   .pages = side.first() ? PageChoice::base_4k : kPages});
    Many many(side, config);
    many.add(1);
    {
        const Table table(side, many, many.context().arena("table"), kFar);
        if (side.first()) {
            Reader reader(many, table);
            read_often(side, reader, &Reader::read_prepared_list, of.bytes / kLine);
        }
        many.meet();
    }
    many.meet();
}

}  // namespace

void add_reads(Subjects& all) {
    add(all, "verbatim.read", measure<&Reader::read_one_by_one>, {&kRead64});
    add(all, "verbatim.prepared", measure<&Reader::read_prepared>, {&kRead64});
    add(all, "verbatim.prepared_list", measure<&Reader::read_prepared_list>, {&kKeys100});
    add(all, "verbatim.list", measure<&Reader::read_list>, {&kKeys100});
    add(all, "verbatim.singles", measure<&Reader::read_one_by_one>, {&kKeys100});
    add(all, "verbatim.pages_4k", measure_far<PageChoice::base_4k>, {&kFarKeys100});
    // Where they cannot be reserved, there is no such row.
    if (ReservedPages(kHugePage, kTableBytes / kHugePage).suffices())
        add(all, "verbatim.pages_2m", measure_far<PageChoice::huge_2m>, {&kFarKeys100});
}

}  // namespace verbatim::bench
