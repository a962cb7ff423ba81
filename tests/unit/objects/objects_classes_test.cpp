// Polymorphic objects over a connection: announcements of classes, refusals, several graphs at a
// time.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "objects_pair.hpp"
#include "shapes/objects_shapes.hpp"

namespace verbatim {
namespace {

using test::Pair;
using namespace shapes;

using Shapes = std::vector<std::unique_ptr<Shape>>;

Shapes make_shapes(std::size_t count) {
    Shapes shapes;
    for (std::size_t i = 0; i < count; ++i) {
        if (i % 3 == 0) shapes.push_back(std::make_unique<Circle>(static_cast<int>(i)));
        if (i % 3 == 1) shapes.push_back(std::make_unique<Badge>());
        if (i % 3 == 2) shapes.push_back(std::make_unique<Shape>());
    }
    return shapes;
}

std::string told_by(const Shapes& shapes) {
    std::string text;
    for (const auto& shape : shapes) text += shape->tell() + ";";
    return text;
}

TEST(Classes, are_told_before_the_first_graph_that_uses_them) {
    Pair pair;
    for (const std::size_t count : {3u, 40'000u, 4u}) {
        const Shapes shapes = make_shapes(count);
        const auto received = pair.transfer(shapes);
        EXPECT_EQ(told_by(*received), told_by(shapes));
        const bool is_first = count == 3;
        EXPECT_EQ(received.report().classes.cold, is_first ? 3u : 0u);
        EXPECT_EQ(received.report().classes.hot + received.report().classes.warm,
                  count - (is_first ? 3 : 0));
    }
}

TEST(Classes, graphs_under_way_at_the_same_time_share_their_numbers) {
    Pair pair;
    const Shapes large = make_shapes(60'000);
    const Shapes small = make_shapes(5);
    SendOperation<Shapes> sending_large(*pair.sender, large);
    (void)sending_large.step();
    SendOperation<Shapes> sending_small(*pair.sender, small);
    ReceiveOperation<Shapes> first(*pair.receiver), second(*pair.receiver);
    bool all = false;
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(20)); !all;) {
        const bool sent = sending_large.step();
        const bool sent_small = sending_small.step();
        const bool has_first = first.step();
        // Else a graph that comes between two steps goes to the second.
        const bool has_second = (has_first || first.has_begun()) && second.step();
        all = has_first && has_second && sent && sent_small;
        ASSERT_FALSE(deadline.passed());
    }
    EXPECT_TRUE(told_by(*first.take()) == told_by(large));  // too long to be printed
    EXPECT_EQ(told_by(*second.take()), told_by(small));
}

}  // namespace
}  // namespace verbatim
