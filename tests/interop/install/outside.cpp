// A program outside this tree: sends a graph from one thread to another, and says so.
#include <cstdio>
#include <string>
#include <thread>

#include <verbatim/core/config.hpp>
#include <verbatim/driver/error.hpp>
#include <verbatim/objects.hpp>

struct Node {
    std::pmr::string name;
    Node* next = nullptr;
};

int main() try {
    verbatim::Context at_home, outside;
    verbatim::Listener listener = at_home.listen("127.0.0.1:0");
    std::thread sender([&] {
        verbatim::Connection connection =
            outside.connect("127.0.0.1:" + std::to_string(listener.port()));
        Node last{"last"}, first{"first", &last};
        last.next = &first;
        verbatim::send(connection, first);
    });
    verbatim::Connection connection = listener.accept();
    const auto node = verbatim::receive<Node>(connection);
    sender.join();
    const bool circle = node->next->next == &*node;
    std::printf("%s, %s, %s\n", node->name.c_str(), node->next->name.c_str(),
                circle ? "and round" : "and astray");
    return circle ? 0 : 1;
} catch (const verbatim::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
