// Two processes, of which only the sender has loaded the library of a class, or each another one:
// the graph is refused by name, and the connection goes on.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core_fault.hpp"
#include "shapes/objects_shapes.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using namespace shapes;
using softnic::test::Child;
using softnic::test::Wire;

using Shapes = std::vector<std::unique_ptr<Shape>>;

Deadline soon() { return Deadline::after(20s); }

Shapes of(Shape* shape) {
    Shapes shapes;
    shapes.emplace_back(shape);
    return shapes;
}

// Sends a graph of the library's class, one of the program's, and the first once more.
int send_all(Wire& wire) {
    void* const library = dlopen(std::getenv("SHAPES_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return 90;
    const auto make = reinterpret_cast<Shape* (*)(const void*)>(dlsym(library, "make_shape"));
    std::uint16_t port = 0;
    if (!wire.get(port)) return 91;
    Context context(test::small_config());
    Connection connection = context.connect(test::local(port));
    const Shapes late = of(make(nullptr));
    const Shapes known = of(new Circle(5));
    for (const Shapes* const graph : {&late, &known, &late}) send(connection, *graph, {soon()});
    wire.wait();
    return 0;
}

std::string refusal(Connection& connection) {
    const Error error = test::error_of([&] { (void)receive<Shapes>(connection, {soon()}); });
    return error.code() == Errc::type_mismatch ? error.what() : "another error";
}

using Text = std::array<char, 1000>;

// Tells the sender's port, and then what it is told of the class.
int refuse_all(Wire& wire, const char* library) {
    if (library != nullptr && dlopen(library, RTLD_NOW | RTLD_LOCAL) == nullptr) return 90;
    Context context(test::small_config());
    Listener listener = context.listen("127.0.0.1:0");
    wire.put(listener.port());
    Connection connection = listener.accept(soon());
    const std::string first = refusal(connection);
    if (receive<Shapes>(connection, {soon()})->front()->tell() != "circle 5") return 91;
    if (refusal(connection) != first) return 92;
    Text text{};
    first.copy(text.data(), text.size() - 1);
    wire.put(text);
    return 0;
}

// What a receiver is told that has loaded that library, if any. Both are processes of their own:
// this one loads none.
std::string refused_with(const char* library) {
    Child receiver([library](Wire& wire) { return refuse_all(wire, library); });
    Child sender(send_all);
    std::uint16_t port = 0;
    EXPECT_TRUE(receiver.wire().get(port));
    EXPECT_TRUE(sender.wire().put(port));
    Text text{};
    EXPECT_TRUE(receiver.wire().get(text));
    sender.wire().signal();
    EXPECT_EQ(receiver.reap(), 0);
    EXPECT_EQ(sender.reap(), 0);
    return text.data();
}

bool says(const std::string& text, const std::string& part) {
    if (text.find(part) != std::string::npos) return true;
    ADD_FAILURE() << "\"" << text << "\" does not say \"" << part << "\"";
    return false;
}

TEST(ClassesOfPeers, that_are_not_known_here_are_named_and_the_connection_goes_on) {
    const std::string text = refused_with(nullptr);
    says(text, "shapes::Late");
    says(text, "shapes_library.cpp");
}

TEST(ClassesOfPeers, of_another_layout_here_are_named_and_the_connection_goes_on) {
    const std::string text = refused_with(std::getenv("OTHER_SHAPES_LIBRARY"));
    says(text, "shapes::Late");
    says(text, "differently");
    says(text, "part");
}

}  // namespace
}  // namespace verbatim
