// Sends a graph of many kinds of types: a map of books, shared authors, a pointer into a vector.
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>
#include <variant>

#include <verbatim/objects.hpp>

struct Book {
    std::string title;
    std::shared_ptr<std::string> author;  // shared by books
    std::variant<int, std::string> shelf;
};
struct Library {
    std::map<std::string, Book> books;
    std::vector<int> visits;
    int* busiest = nullptr;  // one of the visits
};

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && std::string_view(argv[1]) == "send") {
        const auto author = std::make_shared<std::string>("M. Example, of a long name");
        Library library{{{"b", {"Two", author, 7}}, {"a", {"One", author, "attic"}}}, {1, 9, 4}};
        library.busiest = &library.visits[1];
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, library);
        return 0;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto library = verbatim::receive<Library>(connection);
    for (const auto& [key, book] : library->books)
        std::printf("%s: %s by %s\n", key.c_str(), book.title.c_str(), book.author->c_str());
    std::printf("busiest: %td\n", library->busiest - library->visits.data());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-library: %s\n", error.what()), 1;
}
