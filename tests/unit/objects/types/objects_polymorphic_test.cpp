// Classes with virtual functions, through both walks.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"
#include "shapes/objects_shapes.hpp"

namespace shapes {

// Its description leaves the base class out.
struct Orphan : Shape {
    int own = 0;
};
VERBATIM_DESCRIBE(Orphan, own)

// Its prototype cannot be made.
struct Refusing : Shape {
    Refusing() { throw std::runtime_error("not without a number"); }
    explicit Refusing(int) {}
};
VERBATIM_DESCRIBE_DERIVED(Refusing, (Shape))

}  // namespace shapes

namespace verbatim::objects {
namespace {

using namespace shapes;

std::unique_ptr<Group> make_group() {
    auto group = std::make_unique<Group>();
    group->name = "a group with a long name that is kept apart";
    group->parts.push_back(std::make_unique<Circle>(1));
    group->parts.push_back(nullptr);
    auto inner = std::make_unique<Group>();
    inner->parts.push_back(std::make_unique<Circle>(2));
    inner->parts.push_back(std::make_unique<Shape>());
    inner->parts.push_back(std::make_unique<Badge>());
    group->parts.push_back(std::move(inner));
    return group;
}

TEST(Polymorphic, a_tree_of_owners_arrives_with_its_classes) {
    Loopback<std::unique_ptr<Shape>> loopback;
    const std::unique_ptr<Shape> root = make_group();
    for (const std::uint64_t flush_bytes : {std::uint64_t{1}, kSegmentBytes}) {
        loopback.flush_bytes = flush_bytes;
        const auto& received = loopback.send(root);
        EXPECT_EQ(received->tell(), root->tell());
        EXPECT_NE(received.get(), root.get());
        const auto* const group = dynamic_cast<const Group*>(received.get());
        ASSERT_NE(group, nullptr);
        EXPECT_NE(dynamic_cast<const Circle*>(group->parts[0].get()), nullptr);
    }
}

TEST(Polymorphic, resolutions_are_counted_as_hot_warm_or_cold) {
    Loopback<std::vector<std::unique_ptr<Shape>>> loopback;
    std::vector<std::unique_ptr<Shape>> shapes;
    for (int i = 0; i < 10; ++i) shapes.push_back(std::make_unique<Circle>(i));
    shapes.push_back(std::make_unique<Shape>());
    shapes.push_back(std::make_unique<Circle>(10));
    (void)loopback.send(shapes);
    for (const ClassCounts& counts : {loopback.sent_counts, loopback.received_counts}) {
        EXPECT_EQ(counts.cold, 2u);
        EXPECT_EQ(counts.warm, 1u);
        EXPECT_EQ(counts.hot, 9u);
    }
    (void)loopback.send(shapes);
    EXPECT_EQ(loopback.sent_counts.cold, 0u);
    EXPECT_EQ(loopback.received_counts.cold, 0u);
}

TEST(Polymorphic, pointers_through_any_base_lead_to_one_object) {
    struct Root {
        Named* named = nullptr;
        Shape* shape = nullptr;
        Badge* badge = nullptr;
        Named* again = nullptr;
    };
    Loopback<Root> loopback;
    Badge badge;
    badge.text = "one";
    const auto& received = loopback.send({&badge, &badge, &badge, &badge});
    EXPECT_EQ(loopback.objects, 2u);
    EXPECT_EQ(received.named->name(), "one");
    EXPECT_EQ(received.shape->tell(), "badge one");
    EXPECT_EQ(received.badge, dynamic_cast<Badge*>(received.named));
    EXPECT_EQ(static_cast<Shape*>(received.badge), received.shape);
    EXPECT_EQ(received.again, received.named);
}

TEST(Polymorphic, a_base_class_that_occurs_twice_is_told_apart) {
    struct Root {
        Shape *right = nullptr, *left = nullptr;
    };
    Loopback<Root> loopback;
    Both both;
    both.Left::id = 1;
    both.Right::id = 2;
    const auto& received = loopback.send({static_cast<Right*>(&both), static_cast<Left*>(&both)});
    EXPECT_EQ(received.left->tell(), "left");
    EXPECT_EQ(received.left->id, 1);
    EXPECT_EQ(received.right->tell(), "right");
    EXPECT_EQ(received.right->id, 2);
    EXPECT_EQ(loopback.objects, 2u);
}

TEST(Polymorphic, cycles_close_at_the_receiver) {
    Loopback<Shape*> loopback;
    const auto one = std::make_shared<Linked>(), other = std::make_shared<Linked>();
    one->raw = other.get();
    one->other = other;
    other->raw = one.get();
    Shape* const root = one.get();
    const auto* const received = dynamic_cast<const Linked*>(loopback.send(root));
    ASSERT_NE(received, nullptr);
    const auto* const next = dynamic_cast<const Linked*>(received->raw);
    ASSERT_NE(next, nullptr);
    EXPECT_EQ(next->raw, received);
    EXPECT_EQ(received->other.lock().get(), next);
    EXPECT_EQ(next->shared_from_this().get(), next);
}

Scene make_scene() {
    Scene scene;
    scene.first.radius = 7;
    scene.more = std::vector<Circle>(3, Circle(8));
    scene.pair[0].radius = 9;
    scene.maybe.emplace().text = "of the optional";
    scene.named["a"] = std::make_shared<Circle>(10);
    scene.named["b"] = scene.named["a"];
    scene.text = "a text that is longer than fifteen";
    scene.view = std::string_view(scene.text).substr(2, 4);
    scene.number = &scene.more[2].radius;
    scene.plain = "plain";
    return scene;
}

TEST(Polymorphic, parts_by_value_and_references_of_derived_classes_arrive) {
    Loopback<Shape*> loopback;
    Scene scene = make_scene();
    const auto* const received = dynamic_cast<const Scene*>(loopback.send(&scene));
    ASSERT_NE(received, nullptr);
    EXPECT_EQ(received->tell(), scene.tell());
    EXPECT_EQ(received->view.data(), received->text.data() + 2);
    EXPECT_EQ(received->number, &received->more[2].radius);
    EXPECT_EQ(received->named.at("a").get(), received->named.at("b").get());
    const Shape& part = received->pair[1];
    EXPECT_EQ(part.tell(), "circle 0");
}

TEST(Polymorphic, graphs_that_hold_them_only_by_value_arrive) {
    static_assert(!kIsOpen<std::vector<Circle>>);
    Loopback<std::vector<Circle>> loopback;
    const std::vector<Circle> circles(1000, Circle(3));
    const Shape& last = loopback.send(circles).back();
    EXPECT_EQ(last.tell(), "circle 3");
}

TEST(Polymorphic, pointers_into_arrays_of_them_lead_there_in_any_order) {
    struct Root {
        std::vector<Shape*> before;
        std::vector<Circle> circles;
        Shape* after = nullptr;
        Shape* inside = nullptr;
        Scene scene;
    };
    Loopback<Root> loopback;
    Root root;
    root.scene = make_scene();
    root.scene.view = root.scene.text;
    root.scene.number = &root.scene.more[0].radius;
    root.circles.assign(5, Circle(5));
    root.before = {&root.circles[3], &root.circles[0], &root.scene.more[2]};
    root.after = &root.circles[4];
    root.inside = &root.scene.pair[1];
    for (const std::uint64_t flush_bytes : {std::uint64_t{1}, kSegmentBytes}) {
        loopback.flush_bytes = flush_bytes;
        const auto& received = loopback.send(root);
        EXPECT_EQ(received.before[0], &received.circles[3]);
        EXPECT_EQ(received.before[1], &received.circles[0]);
        EXPECT_EQ(received.before[2], &received.scene.more[2]);
        EXPECT_EQ(received.after, &received.circles[4]);
        EXPECT_EQ(received.inside, &received.scene.pair[1]);
        EXPECT_EQ(received.before[2]->tell(), "circle 8");
    }
}

TEST(Polymorphic, a_root_may_be_of_a_derived_class) {
    Loopback<Shape> loopback;
    Badge badge;
    badge.text = "root";
    EXPECT_EQ(loopback.send(badge).tell(), "badge root");
    EXPECT_EQ(loopback.send(Shape{}).tell(), "shape");
    Loopback<Named> abstract;
    EXPECT_EQ(static_cast<const Named&>(abstract.send(badge)).name(), "root");
}

TEST(Polymorphic, large_arrays_of_pointers_arrive_with_the_classes_of_all) {
    Loopback<std::vector<std::unique_ptr<Shape>>> loopback;
    std::vector<std::unique_ptr<Shape>> shapes(70'000);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        if (i % 3 == 0) shapes[i] = std::make_unique<Circle>(static_cast<int>(i));
        if (i % 3 == 1) shapes[i] = std::make_unique<Badge>();
    }
    const auto& received = loopback.send(shapes);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
        ASSERT_EQ(received[i] == nullptr, shapes[i] == nullptr);
        if (received[i] == nullptr) continue;
        ASSERT_EQ(received[i]->tell(), shapes[i]->tell());
    }
}

TEST(Polymorphic, sent_as_acyclic_each_reference_has_its_own) {
    Loopback<std::vector<Shape*>> loopback;
    Circle circle(4);
    PackOptions options;
    options.acyclic = true;
    const auto& received = loopback.send({&circle, &circle}, options);
    EXPECT_EQ(received[0]->tell() + received[1]->tell(), "circle 4circle 4");
    EXPECT_NE(received[0], received[1]);
}

TEST(Polymorphic, prototypes_may_need_arguments_and_validators_are_asked) {
    Loopback<std::vector<std::unique_ptr<Shape>>> loopback;
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.push_back(std::make_unique<Even>(6));
    EXPECT_EQ(loopback.send(shapes)[0]->tell(), "even 6");
    shapes.push_back(std::make_unique<Even>(7));
    EXPECT_CORRUPT(loopback.send(shapes), "validator");
}

template <class Call>
void expect_unsupported(Call&& call, const std::string& part) {
    try {
        call();
        ADD_FAILURE() << "nothing was refused";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

TEST(Polymorphic, a_class_without_its_description_is_named) {
    Loopback<Shape*> loopback;
    Undescribed undescribed;
    expect_unsupported([&] { (void)loopback.send(&undescribed); }, "shapes::Undescribed");
    Orphan orphan;
    expect_unsupported([&] { (void)loopback.send(&orphan); }, "base class shapes::Shape");
}

TEST(Polymorphic, a_prototype_that_cannot_be_made_costs_the_graph_that_needs_it) {
    Loopback<Shape*> loopback;
    Refusing refusing(1);
    expect_unsupported([&] { (void)loopback.send(&refusing); }, "not without a number");
    Circle circle(1);
    EXPECT_EQ(loopback.send(&circle)->tell(), "circle 1");
}

TEST(Polymorphic, a_view_that_would_cut_an_object_is_refused) {
    struct Root {
        std::span<Shape> view;
    };
    Loopback<Root> loopback;
    Circle circle;
    Shape* const shape = &circle;
    try {
        (void)loopback.send({std::span<Shape>(shape, 1)});
        ADD_FAILURE() << "a part of an object was sent";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer) << error.what();
    }
}

// ---- what a hostile peer might say ----

struct Pointers {
    std::uint64_t before = 0;  // a field at the image's start is told of in records
    Shape* shape = nullptr;
    Named* named = nullptr;
};

TEST(Polymorphic, a_class_must_be_derived_from_the_pointers_type) {
    Loopback<Pointers> loopback;
    Circle circle(1);
    Badge badge;
    const Pointers root{0, &circle, &badge};
    // Numbers: the walk goes from the last to the first, so the badge has 1, the circle 2.
    const auto send_with = [&](std::size_t field, std::uint64_t said) {
        Loopback<Pointers> forging;
        write_at_start(forging, field, kClassBit | said);
        return forging.send(root).shape->id;
    };
    constexpr std::uint64_t kNamedAt = 16;
    EXPECT_EQ(send_with(offsetof(Pointers, named), kNamedAt << 32 | 1), 0);  // as it is
    EXPECT_CORRUPT(send_with(offsetof(Pointers, named), kNamedAt << 32 | 2), "derived");
    EXPECT_CORRUPT(send_with(offsetof(Pointers, named), 1), "derived");
    EXPECT_CORRUPT(send_with(offsetof(Pointers, named), std::uint64_t{17} << 32 | 1), "derived");
    EXPECT_CORRUPT(send_with(offsetof(Pointers, named), kNamedAt << 32 | 3), "without a name");
    EXPECT_CORRUPT(send_with(offsetof(Pointers, named), 0), "without a name");
    EXPECT_CORRUPT(send_with(offsetof(Pointers, shape), kNamedAt << 32 | 1), "derived");
    // A larger object than the graph has bytes for.
    EXPECT_CORRUPT(send_with(offsetof(Pointers, shape), 1), "");
}

TEST(Polymorphic, an_object_cannot_be_used_as_one_of_another_class) {
    Circle circle(1);
    Badge badge;
    const Pointers root{0, &circle, &badge};
    Loopback<Pointers> loopback;
    // The root is at 0, the badge at 32, its Named at 48, the circle at 96.
    for (const std::uint64_t at : {0u, 32u, 40u, 56u, 96u, 104u}) {
        write_at_start(loopback, offsetof(Pointers, named), kPlaceBit | at);
        EXPECT_CORRUPT(loopback.send(root), "");
    }
}

TEST(Polymorphic, virtual_tables_in_the_bytes_are_never_used) {
    Loopback<Shape*> loopback;
    Circle circle(1);
    for (const std::uint64_t forged : {std::uint64_t{0}, std::uint64_t{0x4141414141414141}}) {
        write_at_start(loopback, 16, forged);
        EXPECT_EQ(loopback.send(&circle)->tell(), "circle 1");
    }
}

TEST(Polymorphic, changed_bytes_arrive_or_are_refused) {
    const auto use = [](const std::unique_ptr<Shape>& shape) {
        if (shape == nullptr) return;
        EXPECT_LT(shape->tell().size(), 10'000u);
    };
    send_with_each_byte_changed<std::unique_ptr<Shape>>(make_group(), 320, use);
    auto scene = std::make_unique<Scene>(make_scene());
    scene->view = scene->text;
    scene->number = &scene->more[1].radius;
    send_with_each_byte_changed<std::unique_ptr<Shape>>(
        std::move(scene), 640, [](const std::unique_ptr<Shape>& shape) {
            if (shape == nullptr || dynamic_cast<const Scene*>(shape.get()) == nullptr) return;
            const auto& received = dynamic_cast<const Scene&>(*shape);
            EXPECT_EQ(received.first.tell().find("circle"), 0u);
            for (const auto& [key, part] : received.named)
                EXPECT_LT(part == nullptr ? 0 : part->tell().size(), 10'000u);
        });
}

TEST(Polymorphic, an_unknown_class_and_one_of_another_layout_are_named) {
    ToldClasses told;
    EXPECT_FALSE(told.add(1, 1, "shapes::\x1b[2J"));
    EXPECT_FALSE(told.add(1, 1, "shapes::Disk", "shapes\n.hpp"));
    EXPECT_FALSE(told.add(1, 1, "shapes::Disk", "shapes\x7f.hpp"));
    ASSERT_TRUE(told.add(1, 77, "elsewhere::Square"));
    ASSERT_TRUE(told.add(2, 78, "shapes::Circle"));
    EXPECT_FALSE(told.add(4, 79, "a gap"));
    EXPECT_FALSE(told.add(2, 79, "a number twice"));
    EXPECT_FALSE(told.add(3, 79, ""));
    const std::string text = [] {
        std::string circle = layout_of(type_info<Circle>()).text;
        return circle.replace(circle.find("radius"), 6, "height");
    }();
    told.set_layouts(&text, [](const void* owner, std::uint64_t) {
        return std::string_view(*static_cast<const std::string*>(owner));
    });
    const auto error_of = [&](std::uint64_t number) {
        try {
            (void)told.find(number);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::type_mismatch);
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_NE(error_of(1).find("class elsewhere::Square"), std::string::npos) << error_of(1);
    EXPECT_NE(error_of(1).find("include the header"), std::string::npos) << error_of(1);
    EXPECT_NE(error_of(2).find("height"), std::string::npos) << error_of(2);
    EXPECT_NE(error_of(2).find("build both"), std::string::npos) << error_of(2);
}

}  // namespace
}  // namespace verbatim::objects
