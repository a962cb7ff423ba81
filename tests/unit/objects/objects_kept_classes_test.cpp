// Graphs with virtual functions that outlive their connection: compacted, promoted, and in files.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <xxhash.h>

#include <verbatim/objects.hpp>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::kept {

struct Named {
    virtual ~Named() = default;
    std::string name;
};
VERBATIM_DESCRIBE(Named, name)

struct Plant {
    virtual ~Plant() = default;
    virtual std::string tell() const { return "plant"; }
    int height = 0;
};
VERBATIM_DESCRIBE(Plant, height)

struct Tree final : Plant, Named {
    std::string tell() const override {
        std::string all = "tree " + name + " " + std::to_string(height);
        for (const auto& plant : under) all += "(" + plant->tell() + ")";
        return all;
    }
    std::vector<std::unique_ptr<Plant>> under;
    std::vector<Named*> seen;  // by the second base
};
VERBATIM_DESCRIBE_DERIVED(Tree, (Plant, Named), under, seen)

struct Flower final : Plant {
    std::string tell() const override { return "flower " + colour; }
    std::string colour;
};
VERBATIM_DESCRIBE_DERIVED(Flower, (Plant), colour)

namespace {

namespace fs = std::filesystem;
using Garden = std::vector<std::unique_ptr<Plant>>;

std::unique_ptr<Tree> make_tree(int depth, Named* seen) {
    auto tree = std::make_unique<Tree>();
    tree->name = "a tree with a name of its own, at depth " + std::to_string(depth);
    tree->height = depth;
    auto flower = std::make_unique<Flower>();
    flower->colour = "colour " + std::to_string(depth);
    tree->under.push_back(std::move(flower));
    tree->seen = {seen, tree.get()};
    if (depth > 0) tree->under.push_back(make_tree(depth - 1, tree.get()));
    return tree;
}
Garden make_garden() {
    Garden garden;
    garden.push_back(std::make_unique<Plant>());
    for (int i = 0; i < 20; ++i) garden.push_back(make_tree(i % 5, nullptr));
    return garden;
}
std::string tell(const Garden& garden) {
    std::string all;
    for (const auto& plant : garden) all += plant->tell() + "\n";
    return all;
}
// Pointers by the second base lead to the objects that hold them.
bool is_linked(const Garden& garden) {
    for (const auto& plant : garden)
        if (const auto* const tree = dynamic_cast<const Tree*>(plant.get()))
            if (tree->seen[1] != static_cast<const Named*>(tree)) return false;
    return true;
}

class KeptClasses : public testing::Test {
  protected:
    ~KeptClasses() override { fs::remove(path_); }
    std::string path_ =
        (fs::temp_directory_path() / ("kept-classes-" + std::to_string(getpid()))).string();
};

TEST_F(KeptClasses, a_graph_is_compacted_with_its_classes) {
    test::Pair pair;
    const Garden garden = make_garden();
    auto received = pair.transfer(garden);
    const std::size_t before = pair.receiver->receive_arena().usage().allocated_bytes;
    received.compact();
    EXPECT_LE(pair.receiver->receive_arena().usage().allocated_bytes, before);
    pair.sender.reset();
    pair.receiver.reset();
    EXPECT_EQ(tell(*received), tell(garden));
    EXPECT_TRUE(is_linked(*received));
}

TEST_F(KeptClasses, a_part_is_promoted_by_a_pointer_to_its_base) {
    test::Pair pair;
    const Garden garden = make_garden();
    auto received = pair.transfer(garden);
    const Plant* const part = (*received)[5].get();
    const auto promoted = received.promote(part);
    received = pair.transfer(garden);  // the former one goes
    EXPECT_EQ(promoted->tell(), garden[5]->tell());
    EXPECT_NE(dynamic_cast<const Tree*>(promoted.get()), nullptr);
}

TEST_F(KeptClasses, a_saved_graph_is_mapped_with_its_classes) {
    const Garden garden = make_garden();
    save(path_, garden);
    const auto read_only = map<const Garden>(path_);
    EXPECT_EQ(tell(*read_only), tell(garden));
    EXPECT_TRUE(is_linked(*read_only));
    auto own = map<Garden>(path_);
    own.mutable_view()[0]->height = 7;
    EXPECT_EQ(own->front()->height, 7);
    EXPECT_EQ(read_only->front()->height, 0);
}

TEST_F(KeptClasses, a_root_of_a_derived_class_is_saved_by_its_base) {
    const auto tree = make_tree(3, nullptr);
    save<Plant>(path_, *tree);
    const auto mapped = map<const Plant>(path_);
    EXPECT_EQ(mapped->tell(), tree->tell());
}

// As a hostile writer would, with sums that fit.
class Tampered {
  public:
    explicit Tampered(const std::string& path) : path_(path) {
        std::ifstream in(path, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::string& bytes() { return bytes_; }
    std::uint64_t word(std::size_t at) const {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes_.data() + at, sizeof value);
        return value;
    }
    void put(std::size_t at, std::uint64_t value) {
        std::memcpy(bytes_.data() + at, &value, sizeof value);
    }
    void write() {
        put(24, bytes_.size());
        put(104, XXH3_64bits(bytes_.data() + 4096, bytes_.size() - 4096));
        put(112, XXH3_64bits(bytes_.data(), 112));
        std::ofstream(path_, std::ios::binary) << bytes_;
    }
    // Where the classes begin: they are the last part.
    std::size_t classes_at() const { return bytes_.size() - (word(88) + 7) / 8 * 8; }

  private:
    std::string path_, bytes_;
};

TEST_F(KeptClasses, a_file_whose_classes_contradict_themselves_is_corrupt) {
    save(path_, make_garden());
    const Tampered good(path_);
    const std::size_t at = good.classes_at();
    ASSERT_GT(good.word(88), 0u);
    const auto code_with = [&](auto change) {
        Tampered file = good;
        change(file);
        file.write();
        return test::error_code_of([&] { (void)map<const Garden>(path_); });
    };
    // Lengths of name and layout share a word.
    EXPECT_EQ(code_with([&](Tampered& file) { file.put(at + 8, ~std::uint64_t{0}); }),
              Errc::corrupt_message);
    EXPECT_EQ(code_with([&](Tampered& file) { file.put(at + 8, 0); }), Errc::corrupt_message);
    EXPECT_EQ(code_with([&](Tampered& file) { file.put(at, file.word(at) + 1); }),
              Errc::type_mismatch);
    EXPECT_EQ(code_with([&](Tampered& file) {
                  file.bytes().resize(at);
                  file.put(88, 0);
              }),
              Errc::corrupt_message);
    EXPECT_EQ(code_with([&](Tampered& file) { file.put(88, std::uint64_t{1} << 40); }),
              Errc::corrupt_message);
    EXPECT_EQ(code_with([](Tampered&) {}), Errc::ok);
}

TEST_F(KeptClasses, a_class_that_this_program_does_not_know_is_named) {
    save(path_, make_garden());
    Tampered file(path_);
    const std::size_t name = file.bytes().find("Flower", file.classes_at());
    ASSERT_NE(name, std::string::npos);
    file.bytes().replace(name, 6, "Weed!!");
    file.write();
    const Error error = test::error_of([&] { (void)map<const Garden>(path_); });
    EXPECT_EQ(error.code(), Errc::type_mismatch);
    EXPECT_NE(std::string(error.what()).find("Weed!!"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace verbatim::kept
