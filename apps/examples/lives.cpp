// What becomes of a received graph: it is compacted, shared in parts, cloned.
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <verbatim/objects.hpp>

struct Order {
    std::string customer;
    std::vector<std::unique_ptr<std::string>> articles;
};

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        Order order{"Example & Daughters, Ltd.", {}};
        order.articles.push_back(std::make_unique<std::string>("lamp"));
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, order);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    auto order = verbatim::receive<Order>(connection);
    order.compact();  // no window is held from here on
    const std::shared_ptr<const std::string> customer = order.share(&order->customer);
    const std::unique_ptr<Order> clone = order.clone();  // ordinary objects, which may grow
    clone->articles.push_back(std::make_unique<std::string>("bulb"));
    { const auto ended = std::move(order); }
    std::printf("%s: %zu articles\n", customer->c_str(), clone->articles.size());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-lives: %s\n", error.what()), 1;
}
