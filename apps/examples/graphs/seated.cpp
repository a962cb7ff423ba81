// A composed message of objects that its make() does not make: elements of its arrays, and others.
#include <cstdio>
#include <string_view>

#include <verbatim/objects.hpp>

struct Track {
    std::pmr::string title;
    std::pmr::vector<int> beats;
};
struct Album {
    std::pmr::vector<Track> tracks;
    Track* best = nullptr;
};
VERBATIM_COMPOSED(Album);

int main(int argc, char** argv) try {
    verbatim::Context context;
    if (argc == 2 && std::string_view(argv[1]) == "send") {
        verbatim::Connection connection = context.connect("127.0.0.1:7471");
        auto album = verbatim::compose<Album>(connection);
        Track prelude{"a prelude with a long title", {1, 2}};
        album.seat(prelude);  // moves its text and its numbers into the message
        album->tracks.push_back(std::move(prelude));
        std::pmr::memory_resource* const memory = album.resource();
        album->tracks.push_back({{"a fugue with a long title", memory}, {{3, 4, 5}, memory}});
        album->best = &album->tracks[1];
        return verbatim::send(connection, album).composed ? 0 : 1;
    }
    verbatim::Connection connection = context.listen("127.0.0.1:7471").accept();
    const auto album = verbatim::receive<Album>(connection);
    std::printf("%s; best: %s, %zu beats\n", album->tracks[0].title.c_str(),
                album->best->title.c_str(), album->best->beats.size());
} catch (const verbatim::Error& error) {
    return std::fprintf(stderr, "example-seated: %s\n", error.what()), 1;
}
