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
    for (int round = 0; round < 3; ++round) {
        std::map<std::uint64_t, Mark> model;
        for (int i = 0; i < 20000; ++i) {
            const std::uint64_t address = (random() % 3000 * 4096 + random() % 256 * 16)
                                          << (random() % 2 * 20);
            if (random() % 8 == 0 && marks.page_is_untouched(address)) {
                const auto mark = static_cast<Mark>(i + 1);
                marks.mark_page(address, mark);
                for (std::uint64_t at = address / 4096 * 4096, end = at + 4096; at < end; at += 16)
                    model[at] = mark;
            } else if (Mark* page = marks.page_marks(address)) {
                model[address] = page[PageMarks::granule(address)] = static_cast<Mark>(i + 1);
            }
            const std::uint64_t probe = random() % 3000 * 4096 + random() % 256 * 16;
            const auto known = model.find(probe);
            ASSERT_EQ(marks.at(probe), known == model.end() ? 0 : known->second);
        }
        marks.clear();
        for (const auto& [address, mark] : model) ASSERT_EQ(marks.at(address), 0u);
    }
}

}  // namespace
}  // namespace verbatim
