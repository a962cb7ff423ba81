// Classes with virtual functions, through both walks.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace shapes {

struct Shape {
    virtual ~Shape() = default;
    virtual std::string tell() const { return "shape"; }
    int id = 0;
};
VERBATIM_DESCRIBE(Shape, id)

struct Circle : Shape {
    std::string tell() const override { return "circle " + std::to_string(radius); }
    int radius = 0;
};
VERBATIM_DESCRIBE_DERIVED(Circle, (Shape), radius)

struct Group : Shape {
    std::string tell() const override {
        std::string text = name + "(";
        for (const auto& part : parts) text += part == nullptr ? "-," : part->tell() + ",";
        return text + ")";
    }
    std::string name;
    std::vector<std::unique_ptr<Shape>> parts;
};
VERBATIM_DESCRIBE_DERIVED(Group, (Shape), name, parts)

std::unique_ptr<Shape> circle(int radius) {
    auto made = std::make_unique<Circle>();
    made->radius = radius;
    made->id = 100 + radius;
    return made;
}

}  // namespace shapes

namespace verbatim::objects {
namespace {

using namespace shapes;

TEST(Polymorphic, a_tree_of_owners_arrives_with_its_classes) {
    Loopback<std::unique_ptr<Shape>> loopback;
    auto group = std::make_unique<Group>();
    group->name = "a group with a long name that is kept apart";
    group->parts.push_back(circle(1));
    group->parts.push_back(nullptr);
    auto inner = std::make_unique<Group>();
    inner->name = "inner";
    inner->parts.push_back(circle(2));
    inner->parts.push_back(std::make_unique<Shape>());
    group->parts.push_back(std::move(inner));
    const std::unique_ptr<Shape> root = std::move(group);
    const auto& received = loopback.send(root);
    EXPECT_EQ(received->tell(), root->tell());
    EXPECT_NE(received.get(), root.get());
    EXPECT_NE(dynamic_cast<const Group*>(received.get()), nullptr);
    EXPECT_EQ(dynamic_cast<const Group&>(*received).parts[0]->id, 101);
    EXPECT_EQ(loopback.sent_counts.cold, 3u);
}

}  // namespace
}  // namespace verbatim::objects
