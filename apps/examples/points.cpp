// The example of the README: run `example-points receive` in one terminal, `example-points send` in
// another.
#include <cstdio>
#include <string_view>

#include <verbatim/objects.hpp>

struct Point {
    double x, y;
};
struct Shape {
    std::pmr::string name;
    std::pmr::vector<Point*> corners;  // pointers, shared or not, cyclic or not
};

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        verbatim::Arena& arena = context.arena();  // memory that leaves from where it lies
        Shape triangle{{"triangle", &arena}, std::pmr::vector<Point*>(&arena)};
        Point* origin = arena.make<Point>(0.0, 0.0);
        triangle.corners = {origin, arena.make<Point>(4.0, 0.0), arena.make<Point>(0.0, 3.0),
                            origin};
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, triangle);
    } else if (role == "receive") {
        verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
        const auto shape = verbatim::receive<Shape>(connection);  // owns the memory
        for (const Point* corner : shape->corners) std::printf("%g %g\n", corner->x, corner->y);
        std::printf("%s, closed: %s\n", shape->name.c_str(),
                    shape->corners.front() == shape->corners.back() ? "yes" : "no");
    } else {
        std::fputs("usage: example-points send|receive\n", stderr);
        return 2;
    }
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "example-points: %s\n", error.what());
    return 1;
}
