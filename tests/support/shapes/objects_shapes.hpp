// Classes with virtual functions, for tests: one base, several bases, parts by value, containers.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/objects.hpp>

namespace shapes {

struct Shape {
    virtual ~Shape() = default;
    virtual std::string tell() const { return "shape"; }
    int id = 0;
};
VERBATIM_DESCRIBE(Shape, id)

struct Circle : Shape {
    Circle() = default;
    explicit Circle(int r) : radius(r) {}
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

// Abstract, with an accepting function; no polymorphic base.
struct Named {
    virtual ~Named() = default;
    virtual std::string_view name() const = 0;
};
VERBATIM_DESCRIBE(Named)

// Its second base class has a virtual table of its own.
struct Badge : Shape, Named {
    std::string tell() const override { return "badge " + text; }
    std::string_view name() const override { return text; }
    std::string text;
};
VERBATIM_DESCRIBE_DERIVED(Badge, (Shape, Named), text)

struct Left : Shape {
    std::string tell() const override { return "left"; }
};
VERBATIM_DESCRIBE_DERIVED(Left, (Shape))
struct Right : Shape {
    std::string tell() const override { return "right"; }
};
VERBATIM_DESCRIBE_DERIVED(Right, (Shape))
// A Shape twice.
struct Both : Left, Right {
    int more = 0;
};
VERBATIM_DESCRIBE_DERIVED(Both, (Left, Right), more)

// Parts by value, and kinds of references that no root names.
struct Scene : Shape {
    std::string tell() const override {
        std::string all = first.tell() + "," + more.at(1).tell() + "," + pair[0].tell() + ",";
        all += maybe ? maybe->tell() : "-";
        for (const auto& [key, shape] : named) all += "," + key + "=" + shape->tell();
        return all + "," + std::string(view) + "," + std::to_string(*number) + "," + plain;
    }
    Circle first;
    std::vector<Circle> more;
    std::array<Circle, 2> pair;
    std::optional<Badge> maybe;
    std::map<std::string, std::shared_ptr<Shape>> named;
    std::string text;
    std::string_view view;        // of it
    const int* number = nullptr;  // of one of the circles
    const char* plain = nullptr;
};
VERBATIM_DESCRIBE_DERIVED(Scene, (Shape), first, more, pair, maybe, named, text, view, number,
                          plain)

struct Linked : Shape, std::enable_shared_from_this<Linked> {
    std::weak_ptr<Shape> other;
    Shape* raw = nullptr;
};
VERBATIM_DESCRIBE_DERIVED(Linked, (Shape, std::enable_shared_from_this<Linked>), other, raw)

// Needs arguments, hides its members, and is checked.
class Even final : public Shape {
  public:
    explicit Even(int value) : value_(value) {}
    std::string tell() const override { return "even " + std::to_string(value_); }
    bool is_even() const { return value_ % 2 == 0; }

  private:
    int value_;
    VERBATIM_DESCRIBE_PRIVATE_DERIVED(Even, (Shape), value_)
};
VERBATIM_PROTOTYPE(Even, 0)
inline bool is_even(const Even& even) { return even.is_even(); }
VERBATIM_VALIDATE(Even, is_even)

struct Undescribed : Shape {};

}  // namespace shapes
