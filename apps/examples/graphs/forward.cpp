// A forwarder passes a graph on as it came: it neither walks nor rebuilds it. `example-forward
// forward` in one terminal, then `example-forward send`, then `example-forward receive`.
#include <cstdio>
#include <string>
#include <string_view>

#include <verbatim/objects.hpp>

struct Note {
    std::string text;
    Note* next = nullptr;
};

int main(int argc, char** argv) try {
    const std::string_view role = argc == 2 ? argv[1] : "";
    verbatim::Context context;
    if (role == "send") {
        Note first{"from the first process"}, second{"a text that is long enough", &first};
        first.next = &second;  // a circle
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        verbatim::send(connection, first);
    } else if (role == "forward") {
        verbatim::Connection from = context.listen("127.0.0.1:7471").accept();
        const auto note = verbatim::receive<Note>(from, {.forwardable = true});
        verbatim::Connection to = context.listen("127.0.0.1:7475").accept();
        std::printf("%s: %s\n", note->text.c_str(),
                    note.is_forwardable() ? "as it came" : "walked");
        verbatim::send(to, note);
    } else {
        verbatim::Connection connection = context.connect("127.0.0.1:7475");
        const auto note = verbatim::receive<Note>(connection);
        std::printf("%s, %s, closed: %s\n", note->text.c_str(), note->next->text.c_str(),
                    note->next->next == note.get() ? "yes" : "no");
    }
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-forward: %s\n", error.what()), 1;
}
