// Layouts: equal if and only if the bytes mean the same, and explained where they differ.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <verbatim/driver/error.hpp>
#include <verbatim/objects/describe/members.hpp>
#include <verbatim/objects/type_info.hpp>
#include <verbatim/objects/types/all.hpp>

namespace verbatim {
namespace {

namespace one {
struct Leaf {
    int a;
    double b;
};
struct Root {
    std::string name;
    std::vector<Leaf*> leaves;
    Root* next;
};
}  // namespace one

namespace two {
struct Leaf {
    int a;
    float b;
};
struct Root {
    std::string name;
    std::vector<Leaf*> leaves;
    Root* next;
};
}  // namespace two

struct Described {
    int first[3];
    double second;
};
VERBATIM_DESCRIBE(Described, first, second)

struct Forgotten {
    int a;
    double b;
};
VERBATIM_DESCRIBE(Forgotten, a)

class Private {
  public:
    explicit Private(int secret) : secret_(secret) {}
    int secret() const { return secret_; }

  private:
    int secret_;
    std::string text_;
    VERBATIM_DESCRIBE_PRIVATE(Private, secret_, text_)
};

struct Base {
    int a;
};
VERBATIM_DESCRIBE(Base, a)
struct Derived : Base {
    std::string b;
};
VERBATIM_DESCRIBE_DERIVED(Derived, (Base), b)

std::string strip(std::string text, const std::string& what) {
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at))
        text.erase(at, what.size());
    return text;
}

TEST(Layout, is_stable_for_one_type) {
    const auto& a = objects::layout_of(objects::type_info<one::Root>());
    const auto& b = objects::layout_of(objects::type_info<one::Root>());
    EXPECT_EQ(&a, &b);
    EXPECT_NE(a.fingerprint, 0u);
}

TEST(Layout, differs_when_a_field_deep_inside_differs) {
    const auto& a = objects::layout_of(objects::type_info<one::Root>());
    const auto& b = objects::layout_of(objects::type_info<two::Root>());
    EXPECT_NE(a.fingerprint, b.fingerprint);
}

TEST(Layout, names_the_type_and_the_first_field_that_differs) {
    const auto sender = strip(objects::layout_text(objects::type_info<one::Root>()), "::one");
    const auto receiver = strip(objects::layout_text(objects::type_info<two::Root>()), "::two");
    const auto text = objects::first_difference(sender, receiver);
    EXPECT_NE(text.find("Leaf"), std::string::npos) << text;
    EXPECT_NE(text.find("field 1"), std::string::npos) << text;
    EXPECT_NE(text.find("f64"), std::string::npos) << text;
    EXPECT_NE(text.find("f32"), std::string::npos) << text;
}

TEST(Layout, names_described_members) {
    const auto text = objects::layout_text(objects::type_info<Described>());
    EXPECT_NE(text.find("field 0 first at 0: array<i32 x 3>"), std::string::npos) << text;
    EXPECT_NE(text.find("field 1 second at 16: f64"), std::string::npos) << text;
}

TEST(Layout, reaches_private_and_inherited_members) {
    EXPECT_NE(objects::layout_text(objects::type_info<Private>()).find("secret_ at 0"),
              std::string::npos);
    const auto derived = objects::layout_text(objects::type_info<Derived>());
    EXPECT_NE(derived.find(" a at 0: i32"), std::string::npos) << derived;
    EXPECT_NE(derived.find(" b at 8: string<char>"), std::string::npos) << derived;
}

TEST(Layout, refuses_a_description_that_leaves_a_member_out) {
    try {
        objects::layout_text(objects::type_info<Forgotten>());
        FAIL();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::unsupported);
        EXPECT_NE(std::string(error.what()).find("Forgotten"), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("bytes 4 to 16"), std::string::npos)
            << error.what();
    }
}

TEST(Holds, finds_objects_inside_arrays_members_and_nothing_else) {
    using objects::type_info;
    const auto& root = type_info<one::Root>();
    const auto& string = type_info<std::string>();
    const std::vector<one::Root> roots(3);
    const Described described{};
    const objects::ObjectArray three{root, 3, reinterpret_cast<const std::byte*>(roots.data())};
    const objects::ObjectArray one{type_info<Described>(), 1,
                                   reinterpret_cast<const std::byte*>(&described)};
    EXPECT_TRUE(holds(three, 0, root, 3));
    EXPECT_TRUE(holds(three, sizeof(one::Root), root, 2));
    EXPECT_FALSE(holds(three, sizeof(one::Root), root, 3));
    EXPECT_FALSE(holds(three, 8, root, 1));
    EXPECT_TRUE(holds(three, sizeof(one::Root), string, 1));
    EXPECT_FALSE(holds(three, sizeof(one::Root), string, 2));
    EXPECT_TRUE(holds(one, 4, type_info<int>(), 2));
    EXPECT_FALSE(holds(one, 4, type_info<int>(), 3));
    EXPECT_FALSE(holds(one, 4, type_info<unsigned>(), 1));
    EXPECT_FALSE(holds(one, 12, type_info<int>(), 1));  // padding
}

// Receivers go by that for all objects of the type.
TEST(Holds, tells_what_the_type_alone_holds) {
    struct Both {
        std::pair<int, double> pair;
        std::optional<double> maybe;
    };
    const Both both{{1, 2.0}, 3.0};
    const objects::ObjectArray one{objects::type_info<Both>(), 1,
                                   reinterpret_cast<const std::byte*>(&both)};
    const auto& number = objects::type_info<double>();
    EXPECT_EQ(objects::held(one, 8, number, 1), objects::Held::always);
    EXPECT_EQ(objects::held(one, offsetof(Both, maybe), number, 1), objects::Held::now);
    EXPECT_EQ(objects::held(one, 0, number, 1), objects::Held::no);
}

TEST(Holds, finds_what_optionals_hold_only_while_they_hold_it) {
    using Value = std::optional<std::pair<int, std::optional<double>>>;
    std::array<Value, 2> values{Value({1, 2.0}), Value({3, {}})};
    const auto holds_double = [&](std::size_t index) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&values);
        const auto* place = reinterpret_cast<const std::byte*>(&values[index]->second);
        return objects::holds({objects::type_info<std::array<Value, 2>>(), 1, bytes},
                              static_cast<std::uint64_t>(place - bytes),
                              objects::type_info<double>(), 1);
    };
    EXPECT_TRUE(holds_double(0));
    EXPECT_FALSE(holds_double(1)) << "the inner one is empty";
    values[1] = {4, 5.0};
    EXPECT_TRUE(holds_double(1));
    const auto* inside = &values[1]->second;
    values[1].reset();
    const auto* bytes = reinterpret_cast<const std::byte*>(&values);
    EXPECT_FALSE(objects::holds(
        {objects::type_info<std::array<Value, 2>>(), 1, bytes},
        static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(inside) - bytes),
        objects::type_info<double>(), 1))
        << "the outer one is empty";
}

}  // namespace
}  // namespace verbatim
