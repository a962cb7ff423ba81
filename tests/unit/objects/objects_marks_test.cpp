// The map from addresses to runs.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include <verbatim/objects/page_marks.hpp>

namespace verbatim {
namespace {

using objects::Mark;
using objects::PageMarks;

TEST(PageMarks, agrees_with_a_map_under_random_use) {
    PageMarks marks;
    std::mt19937_64 random(7);
    for (int round = 0; round < 5; ++round) {
        std::map<std::uint64_t, Mark> model;
        for (int i = 0; i < 20000; ++i) {
            const std::uint64_t address = (random() % 3000 * 4096 + random() % 256 * 16)
                                          << (random() % 2 * 20);
            if (random() % 8 == 0 && marks.page_is_untouched(address)) {
                const auto mark = static_cast<Mark>(i + 1);
                marks.mark_page(address, mark);
                for (std::uint64_t at = address / 4096 * 4096, end = at + 4096; at < end; at += 16)
                    model[at] = mark;
            } else if (random() % 2 == 0) {
                const std::uint64_t granules =
                    1 + random() % (PageMarks::kGranules - PageMarks::granule(address));
                const auto mark = static_cast<Mark>(i + 1);
                bool is_free = true;
                for (std::uint64_t n = 0; n < granules; ++n)
                    is_free = is_free && !model.contains(address + n * 16);
                ASSERT_EQ(marks.claim(address, granules, mark), is_free);
                for (std::uint64_t n = 0; is_free && n < granules; ++n)
                    model[address + n * 16] = mark;
            } else if (!model.contains(address)) {
                const Mark flag = random() % 2 == 0 ? PageMarks::kFlag : 0;
                marks.set(address, static_cast<Mark>(i + 1) | flag);
                model[address] = static_cast<Mark>(i + 1) | flag;
            }
            const std::uint64_t probe = random() % 3000 * 4096 + random() % 256 * 16;
            const auto known = model.find(probe);
            ASSERT_EQ(marks.at(probe), known == model.end() ? 0 : known->second);
        }
        // As if the graphs had been large: the marks are wiped now and then.
        marks.clear(round % 2 == 0 ? 20000 : PageMarks::kLargest);
        for (const auto& [address, mark] : model) ASSERT_EQ(marks.at(address), 0u);
    }
}

}  // namespace
}  // namespace verbatim
