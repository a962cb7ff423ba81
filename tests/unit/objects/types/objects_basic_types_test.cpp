// Pointers, strings, vectors and members arrive as they were, through a loopback.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"

namespace verbatim::objects {
namespace {

struct Named {
    std::string name;
    std::optional<std::string> other;
    Named* next = nullptr;
};

TEST(BasicTypes, texts_and_cycles_arrive) {
    Loopback<Named> loopback;
    Named first{"short", "not at all a short text", nullptr};
    Named second{"another text that is long", std::nullopt, &first};
    first.next = &second;
    const Named& got = loopback.send(first);
    EXPECT_EQ(got.name, "short");
    EXPECT_EQ(*got.other, "not at all a short text");
    EXPECT_EQ(got.next->name, "another text that is long");
    EXPECT_FALSE(got.next->other);
    EXPECT_EQ(got.next->next, &got);
}

struct Link {
    Link* next = nullptr;
    Link* other = nullptr;
};

TEST(BasicTypes, shared_objects_of_an_acyclic_graph_arrive_twice) {
    Loopback<Link> loopback;
    Link last;
    const Link root{&last, &last};
    const Link& got = loopback.send(root, {.acyclic = true});
    EXPECT_NE(got.next, got.other);
    EXPECT_EQ(loopback.objects, 3u);
}

TEST(BasicTypes, a_cycle_in_an_acyclic_graph_is_an_error_that_names_its_type) {
    Loopback<Link> loopback;
    Link one, two;
    one.next = &two;
    two.next = &one;
    try {
        loopback.send(one, {.acyclic = true});
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::bad_pointer);
        EXPECT_NE(std::string(error.what()).find("Link"), std::string::npos) << error.what();
    }
}

struct Outer;
struct Inner {
    Outer* owner = nullptr;
    int value = 0;
};
struct Outer {
    long before = 1;
    Inner inner;
};
struct InnerFirst {
    Inner* one = nullptr;
    Inner* two = nullptr;
};

TEST(BasicTypes, a_pointer_into_an_object_may_come_before_the_object) {
    Loopback<InnerFirst> loopback;
    Outer outer{7, {&outer, 8}};
    const InnerFirst root{&outer.inner, &outer.inner};
    const InnerFirst& got = loopback.send(root);
    EXPECT_EQ(got.one, got.two);
    EXPECT_EQ(&got.one->owner->inner, got.one);
    EXPECT_EQ(got.one->owner->before, 7);
    EXPECT_EQ(got.one->value, 8);
    EXPECT_EQ(loopback.restarts, 1u);
}

}  // namespace
}  // namespace verbatim::objects
