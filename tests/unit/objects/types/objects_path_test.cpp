// std::filesystem::path, whose components the receiver makes as libstdc++ does.
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include <verbatim/driver/error.hpp>

#include "objects_loopback.hpp"
#include "objects_pair.hpp"

namespace verbatim::objects {
namespace {

using std::filesystem::path;

// All that a program sees of a path, component by component.
std::vector<std::string> parts_of(const path& whole) {
    std::vector<std::string> parts{whole.native()};
    for (const path& part : whole) parts.push_back(part.native());
    for (const path& part :
         {whole.root_name(), whole.root_directory(), whole.root_path(), whole.relative_path(),
          whole.parent_path(), whole.filename(), whole.stem(), whole.extension(),
          whole.lexically_normal(), whole / "more", path(whole).replace_filename("other")})
        parts.push_back(part.native());
    return parts;
}
void arrives(const std::vector<path>& sent) {
    Loopback<std::vector<path>> loopback;
    const auto& got = loopback.send(sent);
    ASSERT_EQ(got.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
        ASSERT_EQ(got[i], sent[i]) << sent[i];
        ASSERT_EQ(parts_of(got[i]), parts_of(path(sent[i].native()))) << sent[i];
        ASSERT_EQ(hash_value(got[i]), hash_value(path(sent[i].native()))) << sent[i];
    }
}

TEST(Paths, arrive_with_their_components) {
    const std::string name = "a name that is longer than a short string", long_one(100'000, 'n');
    arrives({"", "/", "//", "///", "a", ".", "..", "a/", "/a", "a/b", "a//b", "//a/b", "/a/b/c.d/",
             name, name + "/b", "/" + name + "/" + name + "/", long_one, long_one + "/" + long_one,
             "name.of.15.bytes/name.of.16.bytes"});
}

TEST(Paths, that_were_changed_arrive_as_if_they_were_made_anew) {
    path removed("a/name that is longer than others/c.txt"), grown, swapped("x/y");
    removed.remove_filename();
    for (int i = 0; i < 20; ++i) grown /= "part " + std::to_string(i);
    path shorter = grown;
    shorter = "one";
    swapped.swap(grown);
    arrives({removed, grown, shorter, swapped, path("a/b").replace_extension("c"), path("/") / "x",
             path("a/b/c").parent_path().parent_path()});
}

TEST(Paths, of_random_texts_arrive) {
    std::mt19937 random(7);
    const std::string_view characters = "//.ab";
    for (int round = 0; round < 200; ++round) {
        std::vector<path> sent(20);
        for (path& one : sent) {
            std::string text(random() % (round % 2 == 0 ? 12 : 80), ' ');
            for (char& c : text) c = characters[random() % characters.size()];
            one = text;
        }
        ASSERT_NO_FATAL_FAILURE(arrives(sent));
    }
}

struct Folder {
    path root;
    std::map<path, std::string> files;
    std::string_view view;  // of the root's text
    const path* main = nullptr;
};

TEST(Paths, are_keys_and_may_be_looked_into) {
    Folder folder;
    folder.root = "/srv/a name that is longer than others";
    for (const char* name : {"b/c", "a", "b/a", "b.c"}) folder.files[folder.root / name] = name;
    folder.view = std::string_view(folder.root.native()).substr(5, 6);
    folder.main = &folder.files.find(folder.root / "b/c")->first;
    Loopback<Folder> loopback;
    const Folder& got = loopback.send(folder);
    EXPECT_EQ(got.files, folder.files);
    EXPECT_EQ(got.view.data(), got.root.native().data() + 5);
    EXPECT_EQ(got.main, &got.files.find(folder.root / "b/c")->first);
}

TEST(Paths, whose_text_the_peer_changed_are_refused_or_what_it_says) {
    const std::vector<path> sent{"abc/def/a name that is longer than others"};
    int refused = 0, accepted = 0;
    std::mt19937 random(8);
    for (int round = 0; round < 500; ++round) {
        Loopback<std::vector<path>> loopback;
        loopback.tamper = [&](std::uint64_t, std::byte* bytes, std::uint64_t count) {
            bytes[random() % count] = static_cast<std::byte>(round % 2 == 0 ? '/' : round);
        };
        try {
            const auto& got = loopback.send(sent);
            for (const path& one : got) EXPECT_EQ(parts_of(one), parts_of(path(one.native())));
            ++accepted;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::corrupt_message);
            ++refused;
        }
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(accepted, 0);
}

TEST(Paths, are_received_cloned_and_saved) {
    test::Pair pair;
    const std::vector<path> sent{"/usr/share/a name that is longer than others", "b", "c/d"};
    const auto got = pair.transfer(sent);
    EXPECT_EQ(*got, sent);
    const auto clone = got.clone();
    EXPECT_EQ(*clone, sent);
    clone->front() /= "grown";
    EXPECT_EQ(clone->front().filename(), "grown");
    const path file = path(testing::TempDir()) / "paths.graph";
    save(file, *got);
    EXPECT_EQ(parts_of(map<std::vector<path>>(file)->front()), parts_of(sent.front()));
    std::filesystem::remove(file);
}

}  // namespace
}  // namespace verbatim::objects
