// Composed makes say which objects a message has made one by one, and where they lie. The sender
// needs no more for a look at the message from its start to its end (composed_scan.hpp). Threads:
// one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/mp11.hpp>

#include <verbatim/objects/column.hpp>
#include <verbatim/objects/composed/composed_cells.hpp>
#include <verbatim/objects/composed/composed_starts.hpp>
#include <verbatim/objects/graph/closure.hpp>
#include <verbatim/objects/traits/trait.hpp>

namespace verbatim::objects {

template <class Root>
class ComposedMakes {
  public:
    using Types = typename Closure<Root>::Types;
    template <class E>
    static constexpr bool kKnows = boost::mp11::mp_contains<Types, E>::value;
    template <class E>
    static constexpr std::size_t kIndex = boost::mp11::mp_find<Types, E>::value;
    static_assert(boost::mp11::mp_size<Types>::value < ComposedCells::kTaken - 1,
                  "verbatim: too many types");
    // In the cells, for the first granule of an object. Others are zero.
    template <class E>
    static constexpr ComposedCell kNumber = static_cast<ComposedCell>(kIndex<E> + 1);
    // Of types that refer to others, or that several references may lead to.
    template <class E>
    static constexpr bool kHasRuns = kHasReferences<E> || Closure<Root>::template claims<E>();

    // An object of the message starts at that offset, which is a granule's.
    template <class E>
    [[gnu::always_inline]] void add(std::uint64_t offset) {
        if constexpr (kKnows<E>) {
            const std::uint64_t granule = offset / ComposedCells::kGranule;
            if (granule >= cells_.size()) cover(granule);
            cells_[granule] = kNumber<E>;
            ++objects_;
            if constexpr (kHasRuns<E>) {
                auto& runs = runs_[kIndex<E>];
                if (runs.empty() || !runs.back().add(offset)) runs.push_back({offset, 0, 1});
            }
        }
    }

    std::span<const ComposedCell> cells() const noexcept { return cells_.span(); }
    template <class E>
    const std::vector<ComposedRun>& runs() const noexcept {
        static_assert(kHasRuns<E>);
        return runs_[kIndex<E>];
    }
    // Those of the longest run.
    template <class E>
    ComposedStarts starts() const noexcept {
        const auto& all = runs<E>();
        const auto is_shorter = [](const ComposedRun& a, const ComposedRun& b) {
            return a.count < b.count;
        };
        const auto longest = std::max_element(all.begin(), all.end(), is_shorter);
        return longest == all.end() ? ComposedStarts() : ComposedStarts(*longest);
    }
    std::uint64_t objects() const noexcept { return objects_; }

  private:
    [[gnu::noinline]] void cover(std::uint64_t granule) {
        const std::uint64_t more = std::max(granule + 1, 2 * cells_.size()) - cells_.size();
        ComposedCell* const first = cells_.room_for(more);
        std::fill_n(first, more, ComposedCell{0});
        cells_.commit(first + more);
    }

    Column<ComposedCell> cells_;
    std::array<std::vector<ComposedRun>, boost::mp11::mp_size<Types>::value> runs_;
    std::uint64_t objects_ = 0;
};

}  // namespace verbatim::objects
