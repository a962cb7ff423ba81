// Pointers, strings, vectors and members arrive as they were, through a loopback.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <boost/describe.hpp>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

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

enum class Colour : short { red = 1, green = 5, blue = -2 };
BOOST_DESCRIBE_ENUM(Colour, red, green, blue)
enum class Access : unsigned { read = 1, write = 4 };
BOOST_DESCRIBE_ENUM(Access, read, write)
constexpr Access operator|(Access a, Access b) noexcept {
    return static_cast<Access>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
enum class Plain : int { one };
struct Painted {
    Colour colour = Colour::red;
    Access access = Access::read | Access::write;
    Plain plain = static_cast<Plain>(77);
    std::optional<Colour> maybe = Colour::blue;
    std::vector<Colour> all{Colour::green, Colour::blue};
    std::map<Colour, int> counts{{Colour::blue, 1}, {Colour::red, 2}};
};
bool is_colour(Colour value) {
    return value == Colour::red || value == Colour::green || value == Colour::blue;
}

TEST(BasicTypes, enums_arrive_described_or_not) {
    Loopback<Painted> loopback;
    const Painted root;
    const Painted& got = loopback.send(root);
    EXPECT_EQ(got.colour, Colour::red);
    EXPECT_EQ(got.access, Access::read | Access::write);
    EXPECT_EQ(got.plain, static_cast<Plain>(77)) << "of one that is not described, all are taken";
    EXPECT_EQ(got.maybe, Colour::blue);
    EXPECT_EQ(got.all, root.all);
    EXPECT_EQ(got.counts, root.counts);
}

TEST(BasicTypes, a_value_that_is_no_enumerator_of_a_described_enum_is_refused) {
    const auto arena = std::make_shared<Arena>(ArenaOptions{});
    // As if it lay in the place of one of its members.
    const auto send = [&](auto Painted::*member, auto value) {
        const Painted root;
        Loopback<Painted> loopback(arena);
        const auto offset = reinterpret_cast<const std::byte*>(&(root.*member)) -
                            reinterpret_cast<const std::byte*>(&root);
        write_at_start(loopback, static_cast<std::uint64_t>(offset), value);
        return loopback.send(root).access;
    };
    EXPECT_CORRUPT(send(&Painted::colour, short{2}), "Colour");
    EXPECT_CORRUPT(send(&Painted::maybe, short{0}), "Colour");
    EXPECT_CORRUPT(send(&Painted::access, 3u), "Access");
    EXPECT_EQ(send(&Painted::access, 4u), Access::write);
    EXPECT_EQ(send(&Painted::access, 0u), Access{}) << "no flag is set";
}

TEST(BasicTypes, whatever_byte_is_changed_no_described_enum_has_another_value) {
    send_with_each_byte_changed(Painted{}, 192, [](const Painted& got) {
        EXPECT_TRUE(is_colour(got.colour));
        EXPECT_TRUE(!got.maybe || is_colour(*got.maybe));
        EXPECT_TRUE(std::all_of(got.all.begin(), got.all.end(), is_colour));
        for (const auto& [colour, count] : got.counts) EXPECT_TRUE(is_colour(colour));
    });
}

}  // namespace
}  // namespace verbatim::objects
