// Leaves of walks: objects for which neither side makes a step, because all of their pointers are
// null. Both must agree, for classes of all sizes and whatever one of them checks.
#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include <gtest/gtest.h>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace leaves {

struct Node {
    virtual ~Node() = default;
    virtual std::vector<const Node*> next() const { return {}; }
    virtual std::string tell() const { return "node"; }

    std::uint64_t id = 0;
};
VERBATIM_DESCRIBE(Node, id)

// Of `Words` words, and with `Pointers` pointers behind them.
template <std::size_t Words, std::size_t Pointers>
struct Sized : Node {
    std::vector<const Node*> next() const override { return {pointers.begin(), pointers.end()}; }
    std::string tell() const override {
        std::string told = std::to_string(Words) + "/" + std::to_string(Pointers);
        for (const std::uint64_t word : words) told += " " + std::to_string(word);
        return told;
    }

    std::array<std::uint64_t, Words> words{};
    std::array<Node*, Pointers> pointers{};
};
#define SIZED(Words, Pointers)                                \
    using Sized##Words##_##Pointers = Sized<Words, Pointers>; \
    VERBATIM_DESCRIBE_DERIVED(Sized##Words##_##Pointers, (Node), words, pointers)
SIZED(1, 0)
SIZED(2, 0)
SIZED(5, 0)
SIZED(9, 0)
SIZED(1, 1)
SIZED(2, 1)
SIZED(1, 2)
SIZED(3, 2)
SIZED(1, 3)
SIZED(2, 5)
SIZED(1, 5)
SIZED(1, 17)

enum class Mood : std::uint8_t { calm, angry = 7 };
BOOST_DESCRIBE_ENUM(Mood, calm, angry)
struct Pair {
    Node* first = nullptr;
    std::unique_ptr<Node> second;
};

// Beside its pointers it has what the receiver checks, and what it makes itself.
struct Checked : Node {
    std::vector<const Node*> next() const override { return {pair.first, pair.second.get(), last}; }
    std::string tell() const override {
        return std::string(flag ? "yes" : "no") + (mood == Mood::angry ? " angry" : " calm") +
               " left " + std::to_string(left) + " number " + std::to_string(number);
    }

    bool flag = false;
    Mood mood = Mood::calm;
    int left = 0;
    int number = 0;
    Pair pair;
    Node* last = nullptr;
};
VERBATIM_DESCRIBE_DERIVED(Checked, (Node), flag, mood, left, number, pair, last)
VERBATIM_TRANSIENT(Checked, left)
VERBATIM_VALIDATE(Checked, [](const Checked& checked) { return checked.number >= 0; })

// Another base lies at its start.
struct Weight {
    virtual ~Weight() = default;
    std::uint64_t weight = 3;
};
VERBATIM_DESCRIBE(Weight, weight)
struct Heavy : Weight, Node {
    std::vector<const Node*> next() const override { return {lower}; }
    std::string tell() const override { return "heavy " + std::to_string(weight); }

    Node* lower = nullptr;
};
VERBATIM_DESCRIBE_DERIVED(Heavy, (Weight, Node), lower)
struct Named : Node {
    std::vector<const Node*> next() const override { return {below.begin(), below.end()}; }
    std::string tell() const override { return name; }

    std::string name = "a name that is too long to lie in its string";
    std::vector<Node*> below;
};
VERBATIM_DESCRIBE_DERIVED(Named, (Node), name, below)

}  // namespace leaves

namespace verbatim::objects {
namespace {

using namespace leaves;

// A graph of all these classes, in random order, of which most is met more than once.
class Graph {
  public:
    explicit Graph(std::pmr::memory_resource& memory) : memory_(memory) {
        for (unsigned i = 0; i < 400; ++i) {
            make<Sized1_0>(), make<Sized2_0>(), make<Sized5_0>(), make<Sized9_0>();
            make<Sized1_1>(), make<Sized2_1>(), make<Sized1_2>(), make<Sized3_2>();
            make<Sized1_3>(), make<Sized2_5>(), make<Sized1_5>(), make<Sized1_17>();
            if (i % 8 == 0) make_others(i);
        }
        for (Node* const node : std::vector<Node*>(nodes_)) link(*node);
    }
    ~Graph() {
        for (Node* const node : nodes_) node->~Node();
    }
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;
    Node& root() { return *nodes_.back(); }

  private:
    template <class T>
    T& make() {
        T* const made = ::new (memory_.allocate(sizeof(T), alignof(T))) T();
        nodes_.push_back(made);
        if constexpr (requires { made->words; })
            for (std::uint64_t& word : made->words) word = random_();
        return *made;
    }
    void make_others(unsigned i) {
        auto& checked = make<Checked>();
        checked.flag = i % 16 == 0;
        checked.mood = Mood::angry;
        checked.left = 9;
        make<Heavy>().weight = i;
        make<Named>();
        make<Node>();
    }
    // A quarter of the pointers are null, and a quarter of the nodes have no others.
    Node* any() { return random_() % 4 == 0 ? nullptr : nodes_[random_() % nodes_.size()]; }
    void link(Node& node) {
        if (&node != &root() && random_() % 4 == 0) return;
        link_as<Sized1_1>(node), link_as<Sized2_1>(node), link_as<Sized1_2>(node);
        link_as<Sized3_2>(node), link_as<Sized1_3>(node), link_as<Sized2_5>(node);
        link_as<Sized1_5>(node), link_as<Sized1_17>(node);
        if (auto* const heavy = dynamic_cast<Heavy*>(&node)) heavy->lower = any();
        if (auto* const named = dynamic_cast<Named*>(&node))
            for (unsigned i = 0; i < 20; ++i) named->below.push_back(any());
        if (auto* const checked = dynamic_cast<Checked*>(&node))
            checked->pair.first = any(), checked->last = any();
    }
    template <class T>
    void link_as(Node& node) {
        if (auto* const sized = dynamic_cast<T*>(&node))
            for (Node*& pointer : sized->pointers) pointer = any();
    }

    std::pmr::memory_resource& memory_;
    std::mt19937_64 random_{7};
    std::vector<Node*> nodes_;
};

// What a walk from the root meets, each node by its number in the order of the walk.
std::vector<std::string> told_by(const Node& root) {
    std::unordered_map<const Node*, std::size_t> numbers{{&root, 0}};
    std::vector<const Node*> met{&root};
    std::vector<std::string> told;
    for (std::size_t i = 0; i < met.size(); ++i) {
        std::string text = met[i]->tell();
        for (const Node* const next : met[i]->next()) {
            if (next == nullptr) {
                text += " -";
                continue;
            }
            const auto [at, is_new] = numbers.try_emplace(next, met.size());
            if (is_new) met.push_back(next);
            text += " " + std::to_string(at->second);
        }
        told.push_back(std::move(text));
    }
    return told;
}
// Transient members are the default's at the receiver.
std::vector<std::string> as_received(std::vector<std::string> told) {
    for (std::string& text : told)
        if (const auto at = text.find("left 9"); at != std::string::npos) text[at + 5] = '0';
    return told;
}

TEST(LeavesOfClasses, random_graphs_of_all_sizes_arrive) {
    const auto arena = std::make_shared<Arena>(ArenaOptions{});
    std::pmr::monotonic_buffer_resource heap;
    for (std::pmr::memory_resource* const memory :
         {static_cast<std::pmr::memory_resource*>(&heap),
          static_cast<std::pmr::memory_resource*>(arena.get())}) {
        Graph graph(*memory);
        Node* const root = &graph.root();
        const std::vector<std::string> sent = as_received(told_by(*root));
        ASSERT_GT(sent.size(), 1000u);
        for (const std::uint64_t flush_bytes :
             {std::uint64_t{1}, std::uint64_t{5000}, kSegmentBytes}) {
            Loopback<Node*> loopback(arena);
            loopback.flush_bytes = flush_bytes;
            EXPECT_EQ(told_by(*loopback.send(root)), sent);
        }
    }
}

TEST(LeavesOfClasses, owned_trees_arrive_as_acyclic_too) {
    Checked root, *at = &root;
    for (int i = 0; i < 100; ++i) {
        auto below = std::make_unique<Checked>();
        below->number = i;
        Checked* const next = below.get();
        at->pair.second = std::move(below);
        at = next;
    }
    Node* const sent = &root;
    for (const bool acyclic : {false, true}) {
        Loopback<Node*> loopback;
        EXPECT_EQ(told_by(*loopback.send(sent, {.acyclic = acyclic})), told_by(root));
        EXPECT_EQ(loopback.objects, 102u) << "with the pointer to the root";
    }
}

TEST(LeavesOfClasses, what_lies_beside_the_pointers_is_checked) {
    Checked root;
    Node* const sent = &root;
    Loopback<Node*> loopback;
    const auto offset = [&](const auto& member) {
        return 16 + static_cast<std::uint64_t>(reinterpret_cast<const std::byte*>(&member) -
                                               reinterpret_cast<const std::byte*>(&root));
    };
    write_at_start(loopback, offset(root.flag), std::uint8_t{2});
    EXPECT_CORRUPT(loopback.send(sent), "a bool is neither true nor false");
    write_at_start(loopback, offset(root.mood), std::uint8_t{5});
    EXPECT_CORRUPT(loopback.send(sent), "no enumerator");
    write_at_start(loopback, offset(root.number), -1);
    EXPECT_THROW(loopback.send(sent), Error);
    write_at_start(loopback, offset(root.left), 77);
    EXPECT_EQ(loopback.send(sent)->tell(), "no calm left 0 number 0");
}

TEST(LeavesOfClasses, changed_bytes_arrive_or_are_refused) {
    Sized1_2 root, left, right;
    root.pointers = {&left, &right};
    left.pointers = {&right, &root};
    send_with_each_byte_changed<Node*>(&root, 16 + 3 * sizeof root, [](Node* node) {
        const std::size_t met = node == nullptr ? 0 : told_by(*node).size();
        EXPECT_LE(met, 3u);
    });
}

// ---- steps that both sides leave out ----

struct Unchecked {
    std::uint8_t flag = 0;
    std::int32_t number = 0;
    Unchecked* left = nullptr;
    Unchecked* right = nullptr;
};
// The same bytes; only this side checks them.
struct Careful {
    bool flag = false;
    std::int32_t number = 0;
    Careful* left = nullptr;
    Careful* right = nullptr;
};
VERBATIM_DESCRIBE(Careful, flag, number, left, right)
VERBATIM_VALIDATE(Careful, [](const Careful& careful) { return careful.number != 4; })

TEST(LeavesOfWalks, do_not_depend_on_what_one_side_checks) {
    Unchecked below{1, 3, nullptr, nullptr}, root{0, 2, &below, nullptr};
    Loopback<Unchecked, Careful> loopback;
    const Careful& received = loopback.send(root);
    ASSERT_NE(received.left, nullptr);
    EXPECT_TRUE(received.left->flag);
    EXPECT_EQ(received.left->number, 3);
    below.number = 4;
    EXPECT_THROW(loopback.send(root), Error) << "the validator was not asked";
    below = {2, 3, nullptr, nullptr};
    EXPECT_CORRUPT(loopback.send(root), "a bool is neither true nor false");
}
TEST(LeavesOfWalks, do_not_depend_on_what_the_sender_would_check) {
    Careful below{true, 4, nullptr, nullptr}, root{false, 2, &below, nullptr};
    Loopback<Careful, Unchecked> loopback;
    EXPECT_EQ(loopback.send(root).left->number, 4);
}

}  // namespace
}  // namespace verbatim::objects
