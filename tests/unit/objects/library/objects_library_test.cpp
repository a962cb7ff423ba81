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

TEST(Classes, of_a_library_are_known_once_it_is_loaded_and_stay) {
    test::Pair pair;
    EXPECT_EQ(objects::registered_class("shapes::Late"), nullptr);
    void* const library = dlopen(std::getenv("SHAPES_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    EXPECT_NE(objects::registered_class("shapes::Late"), nullptr);
    using Make = Shape* (*)();
    const auto make = reinterpret_cast<Make>(dlsym(library, "make_shape"));
    ASSERT_NE(make, nullptr);
    std::vector<std::unique_ptr<Shape>> shapes;
    shapes.emplace_back(make());
    shapes.push_back(std::make_unique<Circle>(1));
    const auto received = pair.transfer(shapes);
    EXPECT_EQ(received->front()->tell(), "of a library, with a circle 3");
    EXPECT_EQ(received->back()->tell(), "circle 1");
    // Its registration has pinned it: its functions are still there.
    EXPECT_EQ(dlclose(library), 0);
    EXPECT_EQ(received->front()->tell(), "of a library, with a circle 3");
    EXPECT_EQ(shapes.front()->tell(), "of a library, with a circle 3");
}

}  // namespace
}  // namespace verbatim
