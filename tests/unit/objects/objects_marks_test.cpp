// The map from addresses to runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include <verbatim/objects/page_marks.hpp>

namespace verbatim {
namespace {

using objects::Mark;
using objects::PageMarks;

// A run as far as the map is concerned: its granules, and the links that the map keeps with it.
struct Run {
    std::uint64_t address = 0;
    std::uint64_t granules = 0;
    PageMarks::Links links;
};

// The run that holds an address, through the chain of its block, as Scan does it.
Mark found(PageMarks& marks, const std::vector<Run>& runs, std::uint64_t address) {
    Mark mark = marks.newest(address);
    for (std::size_t steps = 0; mark != 0; ++steps) {
        EXPECT_LE(steps, 8u) << "a chain goes in circles";
        if (steps > 8) return 0;
        const Run& run = runs[mark - 1];
        if (address >= run.address && address < run.address + run.granules * 16) return mark;
        const std::uint64_t block = address / 64;
        const std::uint64_t last = (run.address + run.granules * 16 - 1) / 64;
        mark = run.address / 64 == block ? run.links.first : last == block ? run.links.last : 0;
    }
    return 0;
}

Arena small_arena() {
    ArenaOptions options;
    options.segment_bytes = options.max_bytes = options.initial_bytes = 1 << 16;
    options.pages = PageChoice::base_4k;
    return Arena(options);
}

// Random runs that grow, marks without runs, and whole pages; `model` tells for each granule whose
// it is.
class Use {
  public:
    Use(PageMarks& marks, std::uint64_t pages, std::uint64_t seed)
        : marks_(marks), pages_(pages), random_(seed) {}

    void step() {
        const bool extends = !runs_.empty() && random_() % 3 == 0;
        std::uint64_t address = random_() % pages_ * 4096 + random_() % 256 * 16;
        if (extends) address = runs_.back().address + runs_.back().granules * 16;
        if (!extends && random_() % 16 == 0 && marks_.page_is_untouched(address))
            take_page(address / 4096 * 4096);
        else if (!extends && random_() % 4 == 0)
            take_unnamed(address);
        else
            take_piece(address, extends);
        check(random_() % pages_ * 4096 + random_() % 256 * 16);
    }
    void check(std::uint64_t address) {
        const auto known = model_.find(address);
        ASSERT_EQ(found(marks_, runs_, address), known == model_.end() ? 0 : known->second);
    }
    void check_all() {
        for (const auto& [address, mark] : model_) check(address);
    }
    void check_forgotten() {
        for (const auto& [address, mark] : model_) ASSERT_EQ(marks_.newest(address), 0u);
    }

  private:
    void take_page(std::uint64_t address) {
        runs_.push_back({address, 256, {}});
        marks_.mark_page(address, static_cast<Mark>(runs_.size()));
        note(address, 256, static_cast<Mark>(runs_.size()));
    }
    void take_piece(std::uint64_t address, bool extends) {
        const std::uint64_t room = PageMarks::kGranules - PageMarks::granule(address);
        const std::uint64_t granules = std::min(room, 1 + random_() % 24);
        const bool is_free = !is_noted(address, granules);
        ASSERT_EQ(marks_.is_free(address, granules), is_free);
        if (!extends) runs_.push_back({address, 0, {}});
        Run& run = runs_.back();
        const auto mark = static_cast<Mark>(runs_.size());
        ASSERT_EQ(marks_.claim({address, granules, mark, extends}, run.links), is_free);
        if (is_free) {
            run.granules += granules;
            note(address, granules, mark);
        } else if (!extends) {
            runs_.pop_back();
        }
    }
    void take_unnamed(std::uint64_t address) {
        const std::uint64_t granules = 1 + random_() % (PageMarks::kGranules - address / 16 % 256);
        const bool is_free = !is_noted(address, granules);
        ASSERT_EQ(marks_.claim_unnamed(address, granules), is_free);
        if (is_free) note(address, granules, 0);
    }
    bool is_noted(std::uint64_t address, std::uint64_t granules) const {
        const auto at = model_.lower_bound(address);
        return at != model_.end() && at->first < address + granules * 16;
    }
    void note(std::uint64_t address, std::uint64_t granules, Mark mark) {
        for (std::uint64_t n = 0; n < granules; ++n) model_[address + n * 16] = mark;
    }

    PageMarks& marks_;
    std::uint64_t pages_;
    std::mt19937_64 random_;
    std::map<std::uint64_t, Mark> model_;
    std::vector<Run> runs_;
};

TEST(PageMarks, agrees_with_a_map_under_random_use) {
    const Arena arena = small_arena();
    PageMarks marks(arena);
    for (std::uint64_t round = 0; round < 6; ++round) {
        Use use(marks, round % 2 == 0 ? 40 : 3000, round);
        for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) use.step();
        use.check_all();
        marks.clear();
        use.check_forgotten();
    }
}

// Objects that are no multiple of a granule may share one without sharing bytes.
TEST(PageMarks, finds_every_run_that_shares_a_granule) {
    const Arena arena = small_arena();
    PageMarks marks(arena);
    PageMarks::Links first, second;
    ASSERT_TRUE(marks.claim({4096, 2, 1, false}, first));
    ASSERT_FALSE(marks.claim({4096 + 16, 2, 2, false}, second));
    marks.add({4096 + 16, 2, 2, false}, second);
    EXPECT_EQ(marks.newest(4096 + 16), 2u);
    EXPECT_EQ(second.first, 1u);
    EXPECT_EQ(marks.newest(4096), 2u) << "the newest run of the block, not of the granule";
}

TEST(PageMarks, keeps_what_is_added_in_a_page_marked_whole_and_nothing_in_another) {
    const Arena arena = small_arena();
    PageMarks marks(arena);
    PageMarks::Links other, added;
    marks.mark_page(8192, 1);
    ASSERT_TRUE(marks.claim({4096, 1, 2, false}, other));  // the page looked at last
    marks.add({8192 + 128, 1, 3, false}, added);
    EXPECT_EQ(marks.newest(8192 + 128), 3u);
    EXPECT_EQ(added.first, 1u) << "the one before it in its block";
    EXPECT_EQ(marks.newest(8192), 1u);
    EXPECT_EQ(marks.newest(8192 + 4095), 1u);
    EXPECT_FALSE(marks.is_free(8192 + 256, 1));
    EXPECT_EQ(marks.newest(4096 + 128), 0u) << "marked in another page";
}

TEST(PageMarks, lets_only_live_granules_of_the_arena_be_claimed) {
    Arena arena = small_arena();
    PageMarks marks(arena);
    PageMarks::Links links;
    void* before = arena.allocate(64);
    void* freed = arena.allocate(32);
    void* after = arena.allocate(2048);
    arena.deallocate(freed, 32);
    const auto at = [](void* p) { return reinterpret_cast<std::uint64_t>(p); };
    EXPECT_FALSE(marks.claim({at(freed), 2, 1, false}, links));
    EXPECT_FALSE(marks.claim({at(before), 5, 1, false}, links)) << "its end was freed";
    EXPECT_FALSE(marks.claim_unnamed(at(freed) + 16, 3));
    EXPECT_TRUE(marks.claim({at(before), 4, 1, false}, links));
    EXPECT_TRUE(marks.last_is_direct());
    EXPECT_TRUE(marks.claim_unnamed(at(after), 128)) << "more than a word of bits";
    EXPECT_FALSE(marks.claim_unnamed(at(after) + 2048, 1)) << "never allocated";
    std::uint64_t elsewhere[2] = {};
    EXPECT_TRUE(marks.claim_unnamed(at(elsewhere) / 16 * 16, 1));
    EXPECT_FALSE(marks.last_is_direct());
}

}  // namespace
}  // namespace verbatim
