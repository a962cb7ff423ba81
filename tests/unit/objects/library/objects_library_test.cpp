// A polymorphic class of a library that is loaded while the program runs. Program and library have
// the headers' functions each for themselves, and libverbatim.so together.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "objects_pair.hpp"
#include "shapes/objects_shapes.hpp"

namespace verbatim {
namespace {

using namespace shapes;

using Text = std::shared_ptr<std::string>;
using Make = Shape* (*)(const Text*);

// Null: there is no such library.
void* open_library() { return dlopen(std::getenv("SHAPES_LIBRARY"), RTLD_NOW | RTLD_LOCAL); }

TEST(Classes, of_a_library_are_known_once_it_is_loaded_and_stay) {
    test::Pair pair;
    EXPECT_EQ(objects::registered_class("shapes::Late"), nullptr);
    void* const library = open_library();
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_NE(objects::registered_class("shapes::Late"), nullptr);
    const auto make = reinterpret_cast<Make>(dlsym(library, "make_shape"));
    ASSERT_NE(make, nullptr);
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.emplace_back(make(nullptr));
    shapes.push_back(std::make_unique<Circle>(1));
    const auto received = pair.transfer(shapes);
    EXPECT_EQ(received->front()->tell(), "of a library, with a circle 3");
    EXPECT_EQ(received->back()->tell(), "circle 1");
    // Its registration has pinned it: its functions are still there.
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_EQ(received->front()->tell(), "of a library, with a circle 3");
    EXPECT_EQ(shapes.front()->tell(), "of a library, with a circle 3");
}

// The library and the program clone parts of one graph, each by its own code.
TEST(Classes, of_a_library_are_cloned_and_share_objects_with_those_of_the_program) {
    struct Root {
        std::vector<std::unique_ptr<Shape>> shapes;
        Text note;
    };
    void* const library = open_library();
    ASSERT_NE(library, nullptr) << dlerror();
    const auto make = reinterpret_cast<Make>(dlsym(library, "make_shape"));
    Root root;
    root.note = std::make_shared<std::string>("a note that both of them have");
    root.shapes.emplace_back(make(&root.note));
    root.shapes.push_back(std::make_unique<Circle>(1));
    test::Pair pair;
    const auto clone = pair.transfer(root).clone();
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_EQ(clone->shapes[0]->tell(), "of a library, with a circle 3");
    EXPECT_EQ(clone->shapes[1]->tell(), "circle 1");
    EXPECT_EQ(clone->note.use_count(), 2);
    EXPECT_EQ(*clone->note, "a note that both of them have");
    clone->shapes.clear();
    EXPECT_EQ(clone->note.use_count(), 1);
}

}  // namespace
}  // namespace verbatim
