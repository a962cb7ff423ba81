// What a receiver does with the bytes of a graph: the image with its records,
// for several root types. What is accepted must lie in the image to its last byte, and be readable,
// which the address sanitizer checks while the graph is walked.
#include <cstring>
#include <memory_resource>
#include <set>

#include "fuzz_target.hpp"
#include "image_input.hpp"
#include "objects_image.hpp"

using namespace verbatim;

namespace {

struct Node {
    std::uint32_t value;
    bool flag;
    std::optional<std::uint8_t> maybe;
    std::string name;
    std::vector<Node*> edges;
    Node* next;
};
struct Table {
    std::vector<std::string> names;
    std::vector<Node> nodes;
    const char* letter;
    std::unique_ptr<std::array<double, 3>> numbers;
};
using Words = std::pmr::vector<std::pmr::string>;
// What an optional may hold, and pointers to the inside of optionals, early and late.
struct Inner {
    std::optional<std::string> name;
    std::uint16_t number;
};
struct Maybe {
    std::string* early;
    std::optional<std::string> text;
    std::optional<Maybe*> link;
    std::optional<std::unique_ptr<std::string>> owned;
    std::optional<std::vector<std::string>> lines;
    std::array<std::optional<std::string>, 2> pair;
    std::pair<int, std::optional<Inner>> inner;
    std::optional<std::optional<std::array<std::string, 2>>> nested;
    std::vector<std::string*> late;
    std::vector<std::vector<std::string>*> later;
    Maybe* next;
};

// Reads everything that can be reached, each object once, all of it in the image.
class Reader {
  public:
    explicit Reader(const test::Image& image) : image_(image) {}
    void read(const std::string& text) { add(text.data(), text.size() + 1); }
    void read(const std::pmr::string& text) { add(text.data(), text.size() + 1); }
    void read(const Words& words) {
        for (const auto& word : words) read(word);
    }
    void read(const Node& start) {
        std::vector<const Node*> left{&start};
        while (!left.empty()) {
            const Node* node = left.back();
            left.pop_back();
            if (node == nullptr || !seen_.insert(node).second) continue;
            require_inside(node, 1);
            sum_ += node->value + (node->flag ? 1u : 0u) + node->maybe.value_or(0);
            read(node->name);
            left.insert(left.end(), node->edges.begin(), node->edges.end());
            left.push_back(node->next);
        }
    }
    void read(const Maybe& start) {
        std::vector<const Maybe*> left{&start};
        while (!left.empty()) {
            const Maybe* maybe = left.back();
            left.pop_back();
            if (maybe == nullptr || !seen_.insert(maybe).second) continue;
            require_inside(maybe, 1);
            read_parts(*maybe);
            left.push_back(maybe->next);
            left.push_back(maybe->link.value_or(nullptr));
        }
    }
    void read(const Table& table) {
        for (const auto& name : table.names) read(name);
        for (const auto& node : table.nodes) read(node);
        if (table.letter != nullptr) add(table.letter, 1);
        if (table.numbers) add(reinterpret_cast<const char*>(table.numbers.get()), 24);
    }
    std::uint64_t sum() const { return sum_; }

  private:
    template <class T>
    void require_inside(const T* first, std::size_t count) const {
        const auto start = reinterpret_cast<std::uintptr_t>(first),
                   image = reinterpret_cast<std::uintptr_t>(image_.bytes.get());
        fuzz::require(start >= image && start - image <= image_.size &&
                      count <= (image_.size - (start - image)) / sizeof(T));
    }
    void read(const std::string* text) {
        if (text == nullptr) return;
        require_inside(text, 1);
        read(*text);
    }
    void read(const std::optional<std::string>& text) {
        if (text) read(*text);
    }
    void read(const std::vector<std::string>& lines) {
        if (!lines.empty()) require_inside(lines.data(), lines.size());
        for (const auto& line : lines) read(line);
    }
    void read_parts(const Maybe& maybe) {
        read(maybe.early), read(maybe.text), read(maybe.pair[0]), read(maybe.pair[1]);
        if (maybe.owned) read(maybe.owned->get());
        if (maybe.lines) read(*maybe.lines);
        if (maybe.inner.second) read(maybe.inner.second->name);
        if (maybe.nested && *maybe.nested) read((**maybe.nested)[0]), read((**maybe.nested)[1]);
        for (const auto* text : maybe.late) read(text);
        for (const auto* lines : maybe.later)
            if (lines != nullptr) {
                require_inside(lines, 1);
                read(*lines);
            }
    }
    void add(const char* bytes, std::size_t count) {
        require_inside(bytes, count);
        for (std::size_t i = 0; i < count; ++i) sum_ += static_cast<unsigned char>(bytes[i]);
    }
    const test::Image& image_;
    std::set<const void*> seen_;
    std::uint64_t sum_ = 0;
};

volatile std::uint64_t sink;

template <class T>
void mend(const test::Image& original) {
    test::Image image = original.copy();
    try {
        const T* root = image.mend<T>();
        Reader reader(image);
        reader.read(*root);
        sink = reader.sum();
    } catch (const Error& error) {
        fuzz::require(error.code() == Errc::corrupt_message);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
    if (bytes > 1 << 16) return 0;
    fuzz::Input input(data, bytes);
    const auto type = input.number(1);
    const test::Image image = fuzz::image_of(input);
    switch (type % 4) {
        case 0:
            mend<Node>(image);
            break;
        case 1:
            mend<Table>(image);
            break;
        case 2:
            mend<Words>(image);
            break;
        default:
            mend<Maybe>(image);
    }
    return 0;
}

std::vector<std::vector<std::byte>> fuzz_seeds() {
    std::vector<std::vector<std::byte>> seeds;
    const auto add = [&](std::uint8_t type, const auto& root) {
        for (const std::uint64_t flush_bytes : {std::uint64_t{1}, std::uint64_t{1} << 40})
            seeds.push_back(fuzz::image_seed(type, root, flush_bytes));
    };
    Node a{1, true, 7, "a", {}, nullptr}, b{2, false, {}, "a name of more than fifteen", {}, &a};
    a.next = &b;
    a.edges = {&a, &b, nullptr};
    b.edges = {&b, &a};
    add(0, a);
    Table table;
    table.names = {"", "short", "a string that needs memory of its own"};
    table.nodes.resize(3);
    for (auto& node : table.nodes) node = {9, false, {}, "in the table", {&table.nodes[2]}, &a};
    table.letter = table.names[2].data() + 4;
    table.numbers = std::make_unique<std::array<double, 3>>();
    add(1, table);
    Node inner{3, true, {}, "", {&table.nodes[1]}, nullptr};  // into the middle of an array
    add(0, inner);
    const Words words{"one", "two", "three, which is longer than the other two"};
    add(2, words);
    Maybe maybe{};
    maybe.text = "a text that is too long to be local";
    maybe.link = &maybe;
    maybe.owned = std::make_unique<std::string>("owned by an optional");
    maybe.lines = {"one", "two, which needs memory"};
    maybe.pair = {"first", "second"};
    maybe.inner.second = Inner{"a name within two optionals", 3};
    maybe.nested = std::array<std::string, 2>{"inner", "inner, a long one this time"};
    maybe.early = &*maybe.pair[1];
    maybe.late = {&*maybe.text,         &*maybe.pair[0],    &*maybe.inner.second->name,
                  &(**maybe.nested)[1], maybe.owned->get(), &(*maybe.lines)[1]};
    maybe.later = {&*maybe.lines};
    add(3, maybe);
    Maybe empty{};
    empty.next = &maybe;
    add(3, empty);
    return seeds;
}
