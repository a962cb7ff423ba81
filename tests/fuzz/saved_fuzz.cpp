// What map() does with files from anywhere: an error, or a graph that can be used. The first byte
// of an input says whether its sums are made to fit, as a hostile writer would (1), and whether the
// root is one with virtual functions (2).
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <xxhash.h>

#include <verbatim/objects.hpp>

#include "fuzz_target.hpp"

using namespace verbatim;

struct Animal {
    virtual ~Animal() = default;
    virtual std::size_t size() const { return name.size(); }
    std::string name;
};
VERBATIM_DESCRIBE(Animal, name)
struct Legs {
    virtual ~Legs() = default;
    std::uint16_t legs = 4;
};
VERBATIM_DESCRIBE(Legs, legs)
struct Herd final : Animal, Legs {
    std::size_t size() const override {
        std::size_t all = name.size();
        for (const auto& animal : animals)
            if (animal) all += animal->size();
        return all + (first == nullptr ? 0 : first->legs);
    }
    std::vector<std::unique_ptr<Animal>> animals;
    Legs* first = nullptr;
};
VERBATIM_DESCRIBE_DERIVED(Herd, (Animal, Legs), animals, first)

namespace {

struct Leaf {
    std::string text;
    Leaf* next = nullptr;
};
struct Tree {
    std::map<std::uint16_t, Leaf> leaves;
    std::vector<Leaf*> order;
    std::unique_ptr<Leaf> own;
    std::string* inner = nullptr;
};

constexpr std::size_t kBodyAt = 4096, kBodySumAt = 104, kHeaderSumAt = 112;

// The header's page is mostly empty: an input has its first 120 bytes alone.
constexpr std::size_t kHeaderBytes = 120;

std::string file_of(fuzz::Input& input, bool is_summed) {
    const auto head = input.take(kHeaderBytes);
    std::string file(reinterpret_cast<const char*>(head.data()), head.size());
    const auto body = input.take(input.left());
    if (body.empty()) return file;
    file.resize(kBodyAt);
    file.append(reinterpret_cast<const char*>(body.data()), body.size());
    if (!is_summed) return file;
    const std::uint64_t length = file.size();
    std::memcpy(file.data() + 24, &length, sizeof length);
    const std::uint64_t body_sum = XXH3_64bits(file.data() + kBodyAt, file.size() - kBodyAt);
    std::memcpy(file.data() + kBodySumAt, &body_sum, sizeof body_sum);
    const std::uint64_t header_sum = XXH3_64bits(file.data(), kHeaderSumAt);
    std::memcpy(file.data() + kHeaderSumAt, &header_sum, sizeof header_sum);
    return file;
}

void read(const Tree& tree) {
    std::size_t bytes = 0;
    for (const auto& [key, leaf] : tree.leaves) {
        fuzz::require(&tree.leaves.find(key)->second == &leaf);
        bytes += leaf.text.size();
        if (leaf.next != nullptr) bytes += leaf.next->text.size();
    }
    for (const Leaf* leaf : tree.order)
        if (leaf != nullptr) bytes += leaf->text.size();
    if (tree.own) bytes += tree.own->text.size();
    if (tree.inner != nullptr) bytes += tree.inner->size();
    fuzz::require(bytes < std::size_t{1} << 30);
}

void read(const Herd& herd) {
    // A cycle of owners would be endless.
    fuzz::require(herd.animals.size() < std::size_t{1} << 20);
    fuzz::require(typeid(herd) == typeid(Herd));
}

std::string bytes_of(int file) {
    std::string bytes(static_cast<std::size_t>(lseek(file, 0, SEEK_END)), '\0');
    fuzz::require(pread(file, bytes.data(), bytes.size(), 0) == std::ssize(bytes));
    return bytes;
}

}  // namespace

template <class Root>
static bool is_mapped(int file) try {
    const auto graph = map<const Root>(file);
    read(*graph);
    read(*graph.promote(graph.get()));
    return true;
} catch (const Error& error) {
    fuzz::require(error.scope() == Scope::request);
    return false;
}

static bool is_accepted(const std::uint8_t* data, std::size_t bytes) {
    static const int file = memfd_create("graph", MFD_CLOEXEC);
    fuzz::Input input(data, bytes);
    const std::uint64_t how = input.number(1);
    const std::string content = file_of(input, (how & 1) != 0);
    fuzz::require(ftruncate(file, 0) == 0);
    fuzz::require(pwrite(file, content.data(), content.size(), 0) == std::ssize(content));
    return (how & 2) != 0 ? is_mapped<Herd>(file) : is_mapped<Tree>(file);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes <= 1 << 16) is_accepted(data, bytes);
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    Tree tree;
    for (std::uint16_t i = 0; i < 5; ++i)
        tree.leaves[i] = {std::string(i * 7u, 'x'), i == 0 ? nullptr : &tree.leaves[0]};
    for (auto& [key, leaf] : tree.leaves) tree.order.push_back(&leaf);
    tree.own = std::make_unique<Leaf>(Leaf{"own", &tree.leaves[3]});
    tree.inner = &tree.own->text;
    Herd herd;
    herd.name = "a herd";
    herd.animals.push_back(std::make_unique<Animal>());
    auto inner = std::make_unique<Herd>();
    inner->first = &herd;
    herd.first = inner.get();
    herd.animals.push_back(std::move(inner));

    std::vector<std::vector<std::byte>> seeds;
    const int file = memfd_create("seed", MFD_CLOEXEC);
    const auto add = [&](char how, bool is_good) {
        const std::string whole = bytes_of(file);
        for (const char is_summed : {'\0', '\1'}) {
            const char first = static_cast<char>(how | is_summed);
            std::string seed = first + whole.substr(0, kHeaderBytes) + whole.substr(kBodyAt);
            const auto all = std::as_bytes(std::span(seed));
            seeds.emplace_back(all.begin(), all.end());
            fuzz::require(is_accepted(reinterpret_cast<const std::uint8_t*>(seed.data()),
                                      seed.size()) == is_good);
        }
    };
    save(file, tree);
    add(0, true);
    save_placed(file, tree);
    add(0, false);  // it needs trust
    save(file, herd);
    add(2, true);
    close(file);
    return seeds;
}
