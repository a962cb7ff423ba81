// Sends objects of derived classes by pointers to their base: virtual calls work, also of a clone.
#include <cstdio>
#include <memory>

#include <verbatim/objects.hpp>

struct Shape {
    virtual ~Shape() = default;
    virtual double area() const = 0;
};
VERBATIM_DESCRIBE(Shape)

struct Square : Shape {
    double area() const override { return side * side; }
    double side = 3;
};
VERBATIM_DESCRIBE_DERIVED(Square, (Shape), side)

struct Frame : Shape {
    double area() const override { return side->area() + (more ? more->area() : 0); }
    std::unique_ptr<Shape> side = std::make_unique<Square>(), more;
};
VERBATIM_DESCRIBE_DERIVED(Frame, (Shape), side, more)

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && argv[1][0] == 's') {  // "send"
        Frame frame;
        frame.more = std::make_unique<Frame>();
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send<Shape>(connection, frame);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto shape = verbatim::receive<Shape>(connection);
    std::printf("area: %g, of a clone: %g\n", shape->area(), shape.clone()->area());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-shapes: %s\n", error.what()), 1;
}
