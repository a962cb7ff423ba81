// Clones of received graphs with pointers to base classes.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "sanitized.hpp"
#include "shapes/objects_shapes.hpp"

namespace shapes {

// They count how many have ended.
struct Mortal : Badge {
    ~Mortal() override { ++ended; }
    static inline int ended = 0;
};
VERBATIM_DESCRIBE_DERIVED(Mortal, (Badge))

struct Ring : Shape {
    std::string tell() const override { return "ring " + std::to_string(id); }
    std::shared_ptr<Shape> next;
};
VERBATIM_DESCRIBE_DERIVED(Ring, (Shape), next)

struct Link final : Shape {
    std::string tell() const override { return "link"; }
    std::unique_ptr<Shape> next;
};
VERBATIM_DESCRIBE_DERIVED(Link, (Shape), next)

struct Kin : Shape, std::enable_shared_from_this<Kin> {
    std::string tell() const override { return "kin"; }
    std::weak_ptr<Shape> other;
    std::shared_ptr<Shape> next;
};
VERBATIM_DESCRIBE_DERIVED(Kin, (Shape, std::enable_shared_from_this<Kin>), other, next)

// Objects by value, and owners of all kinds.
struct Album : Shape {
    std::string tell() const override {
        std::string all = first.tell();
        for (const Circle& circle : more) all += "," + circle.tell();
        for (const auto& [key, shape] : named) all += "," + key + "=" + shape->tell();
        all += "," + maybe->tell() + "," + std::get<1>(either)->tell();
        return all + "," + counted[1]->tell() + "," + pair.second->tell();
    }
    Circle first;
    std::vector<Circle> more;
    std::map<std::string, std::shared_ptr<Shape>> named;
    std::optional<Group> maybe;
    std::variant<int, std::unique_ptr<Shape>> either;
    std::pair<int, std::shared_ptr<Even>> pair;
    std::uint32_t count = 0;
    std::unique_ptr<std::unique_ptr<Shape>[]> counted;
};
VERBATIM_DESCRIBE_DERIVED(Album, (Shape), first, more, named, maybe, either, pair, count, counted)
VERBATIM_COUNTED(Album, (counted, count))

// Its own functions give and take its memory.
struct Pooled : Shape {
    std::string tell() const override { return "pooled"; }
    static void* operator new(std::size_t bytes) { return ++made, ::operator new(bytes); }
    static void operator delete(void* memory) noexcept { ++freed, ::operator delete(memory); }
    static inline int made = 0, freed = 0;
};
VERBATIM_DESCRIBE_DERIVED(Pooled, (Shape))

}  // namespace shapes

namespace verbatim::clones {
namespace {

using namespace shapes;
using test::Pair;

const std::string kLong = "a text that is too long to lie in its string";

// The graph that was received ends before its clone is looked at.
template <class T>
std::unique_ptr<T> clone_of(const T& root) {
    Pair pair;
    return pair.transfer(root).clone();
}

TEST(Clones, of_owners_of_base_classes_are_of_the_derived_ones) {
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Circle>(1));
    auto group = std::make_unique<Group>();
    group->name = kLong;
    group->parts.push_back(std::make_unique<Circle>(2));
    group->parts.push_back(nullptr);
    group->parts.push_back(std::make_unique<Even>(4));
    shapes.push_back(std::move(group));
    shapes.push_back(std::make_unique<Badge>());
    const auto clone = clone_of(shapes);
    ASSERT_EQ(clone->size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ((*clone)[i]->tell(), shapes[i]->tell());
    auto* const grows = dynamic_cast<Group*>((*clone)[1].get());
    ASSERT_NE(grows, nullptr);
    grows->parts.push_back(std::make_unique<Circle>(7));
    grows->name += kLong;
    clone->push_back(std::move((*clone)[0]));
    EXPECT_EQ((*clone)[1]->tell(), kLong + kLong + "(circle 2,-,even 4,circle 7,)");
}

TEST(Clones, of_a_root_of_a_derived_class_end_by_a_pointer_to_its_base) {
    Mortal mortal;
    mortal.text = kLong;
    auto shape = clone_of<Shape>(mortal);
    auto named = clone_of<Named>(mortal);
    EXPECT_EQ(shape->tell(), "badge " + kLong);
    EXPECT_EQ(named->name(), kLong);
    EXPECT_NE(dynamic_cast<Mortal*>(named.get()), nullptr);
    const int before = Mortal::ended;
    shape.reset();
    named.reset();
    EXPECT_EQ(Mortal::ended, before + 2);
}

TEST(Clones, have_one_object_for_all_pointers_that_share_it_by_any_base) {
    struct Root {
        std::shared_ptr<Named> named;
        std::shared_ptr<Shape> shape;
        std::shared_ptr<Badge> badge;
        std::vector<std::shared_ptr<const Named>> more;
    };
    const auto mortal = std::make_shared<Mortal>();
    mortal->text = kLong;
    auto clone = clone_of(Root{mortal, mortal, mortal, {mortal, nullptr}});
    EXPECT_EQ(clone->badge.use_count(), 4);
    EXPECT_EQ(clone->badge.get(), dynamic_cast<Badge*>(clone->named.get()));
    EXPECT_EQ(clone->shape.get(), clone->badge.get());
    EXPECT_EQ(clone->more[0], clone->named);
    EXPECT_EQ(clone->more[0]->name(), kLong);
    const int before = Mortal::ended;
    const std::shared_ptr<Shape> last = clone->shape;
    clone.reset();
    EXPECT_EQ(last.use_count(), 1);
    EXPECT_EQ(Mortal::ended, before);
}

TEST(Clones, keep_a_base_class_that_occurs_twice_apart) {
    const auto both = std::make_shared<Both>();
    both->Left::id = 1;
    both->Right::id = 2;
    using Shapes = std::vector<std::shared_ptr<Shape>>;
    const std::shared_ptr<Left> left = both;
    const std::shared_ptr<Right> right = both;
    const auto clone = clone_of(Shapes{left, right});
    EXPECT_EQ((*clone)[0]->tell() + (*clone)[1]->tell(), "leftright");
    EXPECT_EQ((*clone)[0]->id + 10 * (*clone)[1]->id, 21);
    EXPECT_EQ((*clone)[0].use_count(), 2);
}

TEST(Clones, close_circles_of_shared_pointers) {
    const auto one = std::make_shared<Ring>(), other = std::make_shared<Ring>();
    one->id = 1;
    other->id = 2;
    one->next = other;
    other->next = one;
    const auto clone = clone_of<std::shared_ptr<Shape>>(one);
    auto& first = dynamic_cast<Ring&>(**clone);
    EXPECT_EQ(first.next->tell(), "ring 2");
    EXPECT_EQ(dynamic_cast<Ring&>(*first.next).next.get(), &first);
    EXPECT_EQ(clone->use_count(), 2);
    first.next.reset();
    one->next.reset();
}

// Nodes that know their parents, and give pointers to themselves.
struct Person : std::enable_shared_from_this<Person> {
    std::string name;
    std::vector<std::shared_ptr<Person>> children;
    std::weak_ptr<Person> parent, stranger;
};
VERBATIM_DESCRIBE_DERIVED(Person, (std::enable_shared_from_this<Person>), name, children, parent,
                          stranger)

TEST(Clones, have_weak_pointers_to_what_is_owned_in_the_clone) {
    auto root = std::make_shared<Person>();
    root->name = "the first of them, with a long name";
    const auto stranger = std::make_shared<Person>();
    for (int i = 0; i < 3; ++i) {
        auto child = std::make_shared<Person>();
        child->parent = root;
        child->stranger = stranger;
        root->children.push_back(std::move(child));
    }
    test::Pair pair;
    const auto received = pair.transfer(root);
    ASSERT_FALSE((*received)->children[0]->stranger.expired());
    const auto clone = received.clone();
    EXPECT_EQ(clone->use_count(), 1);
    EXPECT_EQ((*clone)->name, root->name);
    EXPECT_EQ((*clone)->shared_from_this(), *clone);
    ASSERT_EQ((*clone)->children.size(), 3u);
    for (const auto& child : (*clone)->children) {
        EXPECT_EQ(child->parent.lock(), *clone);
        EXPECT_TRUE(child->stranger.expired()) << "nothing in the graph owns it";
        EXPECT_EQ(child->shared_from_this(), child);
    }
    const std::weak_ptr<Person> left = (*clone)->children[1];
    clone->reset();
    EXPECT_TRUE(left.expired());
}

struct Nested {
    std::optional<Person> maybe;
    std::vector<Person> people;
    std::unique_ptr<Person> alone;
};

TEST(Clones, of_objects_that_no_shared_pointer_owns_give_none_out) {
    Nested nested;
    nested.maybe.emplace();
    nested.people.resize(2);
    nested.people[1].name = "in a vector, with a long name";
    nested.alone = std::make_unique<Person>();
    test::Pair pair;
    const auto received = pair.transfer(nested);
    const auto clone = received.clone();
    EXPECT_EQ(clone->people[1].name, nested.people[1].name);
    EXPECT_TRUE(clone->maybe->weak_from_this().expired());
    EXPECT_TRUE(clone->people[1].weak_from_this().expired());
    EXPECT_TRUE(clone->alone->weak_from_this().expired());
}

TEST(Clones, have_weak_pointers_to_base_classes) {
    const auto first = std::make_shared<Kin>(), second = std::make_shared<Kin>();
    first->next = second;
    second->other = first;
    const std::shared_ptr<Shape> root = first;
    test::Pair pair;
    const auto received = pair.transfer(root);
    const auto clone = received.clone();
    const auto& kin = dynamic_cast<const Kin&>(**clone);
    const auto& next = dynamic_cast<const Kin&>(*kin.next);
    EXPECT_EQ(next.other.lock(), *clone);
    EXPECT_EQ(next.shared_from_this(), kin.next);
}

TEST(Clones, have_objects_by_value_with_their_own_classes) {
    Album album;
    album.first.radius = 1;
    album.more.assign(3, Circle(2));
    album.named["a"] = album.named["b"] = std::make_shared<Circle>(3);
    album.maybe.emplace().parts.push_back(std::make_unique<Circle>(4));
    album.either = std::make_unique<Badge>();
    album.pair.second = std::make_shared<Even>(6);
    album.named["even"] = album.pair.second;  // an own class, by a base and by itself
    album.count = 2;
    album.counted = std::make_unique<std::unique_ptr<Shape>[]>(2);
    album.counted[1] = std::make_unique<Circle>(7);
    const auto clone = clone_of<Shape>(album);
    EXPECT_EQ(clone->tell(), album.tell());
    auto& cloned = dynamic_cast<Album&>(*clone);
    EXPECT_EQ(cloned.named["a"], cloned.named["b"]);
    EXPECT_EQ(cloned.named["even"], cloned.pair.second);
    EXPECT_EQ(cloned.pair.second.use_count(), 2);
    Shape& part = cloned.more[2];
    EXPECT_EQ(part.tell(), "circle 2");
    Shape& first = cloned.first;
    EXPECT_EQ(first.tell(), "circle 1");
    // Without any pointer to a base class.
    const auto circles = clone_of(std::vector<Circle>(3, Circle(5)));
    Shape& last = circles->back();
    EXPECT_EQ(last.tell(), "circle 5");
}

// Their destructors would call deep, so each list is taken apart.
std::size_t take_apart(std::unique_ptr<Shape> list) {
    std::size_t length = 0;
    for (; list; ++length) list = std::move(dynamic_cast<Link&>(*list).next);
    return length;
}

TEST(Clones, of_long_lists_of_base_classes_call_nothing_deep) {
    const std::size_t length = test::kSanitized ? 100'000 : 1'000'000;
    std::unique_ptr<Shape> list;
    for (std::size_t i = 0; i < length; ++i) {
        auto link = std::make_unique<Link>();
        link->next = std::move(list);
        list = std::move(link);
    }
    auto clone = clone_of(list);
    EXPECT_EQ(take_apart(std::move(*clone)), length);
    take_apart(std::move(list));
}

TEST(Clones, take_memory_of_classes_that_give_their_own) {
    std::unique_ptr<Shape> pooled = std::make_unique<Pooled>();
    Pooled::made = Pooled::freed = 0;
    clone_of(pooled).reset();
    EXPECT_EQ(Pooled::made, 1);
    EXPECT_EQ(Pooled::freed, 1);
}

void expect_refused(const std::unique_ptr<Shape>& root, Errc code, const std::string& part) {
    Pair pair;
    const auto graph = pair.transfer(root);
    for (int i = 0; i < 2; ++i) {
        const Error error = test::error_of([&] { (void)graph.clone(); });
        EXPECT_EQ(error.code(), code) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_EQ((*graph)->id, root->id);
}

TEST(Clones, of_classes_without_owners_are_refused_by_name_before_anything_is_made) {
    Group group;
    group.parts.push_back(std::make_unique<Circle>(1));
    auto linked = std::make_unique<Linked>();
    linked->id = 5;
    expect_refused(std::move(linked), Errc::unsupported, "shapes::Linked");
    auto scene = std::make_unique<Scene>();
    scene->more.assign(1, Circle(1));
    group.parts.push_back(std::move(scene));
    auto root = std::make_unique<Group>(std::move(group));
    root->parts.push_back(std::make_unique<Mortal>());
    const int before = Mortal::ended;
    expect_refused(std::move(root), Errc::unsupported, "shapes::Scene");
    EXPECT_EQ(Mortal::ended, before + 1) << "that of the root which was sent";
}

TEST(Clones, of_objects_with_two_owners_are_refused) {
    auto circle = std::make_unique<Link>();
    circle->next.reset(circle.get());
    std::unique_ptr<Shape> root = std::move(circle);
    expect_refused(root, Errc::bad_pointer, "shapes::Link");
    (void)dynamic_cast<Link&>(*root).next.release();
    auto group = std::make_unique<Group>();
    group->parts.push_back(std::make_unique<Badge>());
    group->parts.emplace_back(group->parts[0].get());
    root = std::move(group);
    expect_refused(root, Errc::bad_pointer, "shapes::Badge");
    (void)dynamic_cast<Group&>(*root).parts[1].release();
}

struct SoleFirst {
    std::unique_ptr<Shape> sole;
    std::shared_ptr<Shape> shared;
};
struct SharedFirst {
    std::shared_ptr<Shape> shared;
    std::unique_ptr<Shape> sole;
};
template <class T>
Errc code_of_both_owners() {
    T root;
    root.sole = std::make_unique<Circle>(1);
    root.shared = std::shared_ptr<Shape>(std::shared_ptr<void>(), root.sole.get());
    Pair pair;
    const auto graph = pair.transfer(root);
    return test::error_of([&] { (void)graph.clone(); }).code();
}

TEST(Clones, of_objects_with_a_sole_owner_and_a_sharing_one_are_refused_in_any_order) {
    EXPECT_EQ(code_of_both_owners<SoleFirst>(), Errc::bad_pointer);
    EXPECT_EQ(code_of_both_owners<SharedFirst>(), Errc::bad_pointer);
}

}  // namespace
}  // namespace verbatim::clones
