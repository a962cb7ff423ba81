// Classes over a connection: announcements of polymorphic ones, several graphs at a time; classes
// without members, and with members that have an alignment of their own.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "objects_pair.hpp"
#include "shapes/objects_shapes.hpp"

namespace verbatim {
namespace {

struct Idle {};
struct Running {
    int process = 0;
};
struct Tagged : Idle {
    int number = 0;
};
VERBATIM_DESCRIBE_DERIVED(Tagged, (Idle), number)
struct Packed {
    [[no_unique_address]] Idle idle;
    int number = 0;
};
VERBATIM_DESCRIBE(Packed, idle, number)
struct States {
    std::vector<Idle> many;
    std::map<int, Idle> by_number;
    std::variant<Idle, Running> state;
    std::optional<Idle> maybe;
    std::pair<Idle, int> two;
    Idle one;
    std::vector<Tagged> tagged;
    std::vector<Packed> packed;
};

struct Counters {
    alignas(64) long sent = 0;
    alignas(64) long received = 0;
    int last = 0;
};
VERBATIM_DESCRIBE(Counters, sent, received, last)
struct Forgetful {
    long sent = 0;
    long forgotten[2] = {};
    alignas(16) long received = 0;
};
VERBATIM_DESCRIBE(Forgetful, sent, received)

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

TEST(Classes, know_the_file_that_describes_them) {
    const objects::PolymorphicClass* const known = objects::registered_class(typeid(Badge));
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(objects::described_in(*known), "objects_shapes.hpp");
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

TEST(Classes, without_members_arrive) {
    const States states{
        std::vector<Idle>(3), {{1, {}}, {7, {}}}, Running{42}, Idle{}, {{}, 5}, {}, {{{}, 8}},
        {{{}, 9}, {{}, 10}}};
    Pair pair;
    const auto received = pair.transfer(states);
    EXPECT_EQ(received->many.size(), 3u);
    EXPECT_TRUE(received->by_number.contains(1) && received->by_number.contains(7));
    EXPECT_EQ(std::get<Running>(received->state).process, 42);
    EXPECT_TRUE(received->maybe.has_value());
    EXPECT_EQ(received->two.second, 5);
    EXPECT_EQ(received->tagged.at(0).number, 8);
    EXPECT_EQ(received->packed.at(1).number, 10);
    EXPECT_TRUE(std::holds_alternative<Idle>(pair.transfer(States{})->state));
}

TEST(Classes, with_an_alignment_of_their_members_arrive) {
    Pair pair;
    const std::vector<Counters> all{{1, 2, 3}, {4, 5, 6}};
    const auto received = pair.transfer(all);
    EXPECT_EQ(received->at(1).sent, 4);
    EXPECT_EQ(received->at(1).received, 5);
    EXPECT_EQ(received->at(1).last, 6);
    EXPECT_EQ(test::error_code_of([&] { pair.transfer(Forgetful{}); }), Errc::unsupported)
        << "one member is not described";
}

}  // namespace
}  // namespace verbatim
