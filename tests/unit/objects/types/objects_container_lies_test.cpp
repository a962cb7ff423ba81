// Images of containers that lie are refused, or yield containers that can be used.
#include <algorithm>
#include <cstring>
#include <deque>
#include <forward_list>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <gtest/gtest.h>

#include <verbatim/driver/error.hpp>

#include "objects_loopback.hpp"
#include "objects_tampering.hpp"

namespace verbatim::objects {
namespace {

// True if it was refused as corrupt; any other error is one of the test.
template <class Act>
bool is_refused(Act&& act) {
    try {
        act();
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::corrupt_message) << error.what();
        return true;
    }
    return false;
}

template <class Root, class T>
bool is_refused_with(const Root& root, std::uint64_t at, T value) {
    Loopback<Root> loopback;
    write_at_start(loopback, at, value);
    return is_refused([&] { loopback.send(root); });
}

constexpr std::uint64_t kLarge[] = {4,
                                    1000,
                                    std::uint64_t{1} << 20,
                                    std::uint64_t{1} << 31,
                                    std::uint64_t{1} << 33,
                                    std::uint64_t{1} << 60,
                                    ~std::uint64_t{0} / 24,
                                    ~std::uint64_t{0}};

TEST(ContainerLies, counts_that_are_too_large_are_refused) {
    for (const std::uint64_t count : kLarge) {
        EXPECT_TRUE(is_refused_with(std::list<int>{1, 2, 3}, offsetof(ListImage, size), count));
        EXPECT_TRUE(is_refused_with(std::forward_list<int>{1, 2, 3}, 0, count));
        EXPECT_TRUE(is_refused_with(std::set<int>{1, 2, 3},
                                    kComparatorBytes + offsetof(TreeImage, count), count));
        EXPECT_TRUE(
            is_refused_with(std::unordered_set<int>{1, 2, 3}, offsetof(HashImage, count), count));
        EXPECT_TRUE(is_refused_with(std::vector<bool>{true, false}, offsetof(BitsImage, finish_bit),
                                    static_cast<std::uint32_t>(std::max(count, kLarge[1]))));
    }
}

TEST(ContainerLies, counts_that_are_too_small_are_refused) {
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{2}}) {
        EXPECT_TRUE(is_refused_with(std::list<int>{1, 2, 3}, offsetof(ListImage, size), count));
        EXPECT_TRUE(is_refused_with(std::set<int>{1, 2, 3},
                                    kComparatorBytes + offsetof(TreeImage, count), count));
        EXPECT_TRUE(
            is_refused_with(std::unordered_set<int>{1, 2, 3}, offsetof(HashImage, count), count));
    }
}

// `Container` has three nodes, which the image ends with.
template <class Node>
std::uint64_t key_of_node(std::uint64_t image_bytes, std::uint64_t which) {
    return image_bytes - (3 - which) * sizeof(Node) + offsetof(Node, value);
}
template <class Node, class Container>
bool is_refused_with_key(const Container& sent, std::uint64_t which, int key) {
    Loopback<Container> loopback;
    loopback.send(sent);
    return is_refused_with(sent, key_of_node<Node>(loopback.image_bytes, which), key);
}

TEST(ContainerLies, keys_out_of_order_are_refused) {
    using Node = TreeNode<int>;
    const std::set<int> set{10, 20, 30};
    const std::set<int, std::greater<int>> down{10, 20, 30};
    const std::multiset<int> multi{10, 20, 30};
    for (const int key : {10, 9, 30, 31}) EXPECT_TRUE(is_refused_with_key<Node>(set, 1, key));
    for (const int key : {10, 9, 30, 31}) EXPECT_TRUE(is_refused_with_key<Node>(down, 1, key));
    for (const int key : {9, 31}) EXPECT_TRUE(is_refused_with_key<Node>(multi, 1, key));
    for (const int key : {10, 15, 30}) EXPECT_FALSE(is_refused_with_key<Node>(multi, 1, key));
    EXPECT_FALSE(is_refused_with_key<Node>(set, 1, 11));
}

TEST(ContainerLies, a_key_twice_is_refused) {
    using Node = HashNode<int, false>;
    const std::unordered_set<int> set{10, 20, 30};
    const int first = *set.begin();
    EXPECT_TRUE(is_refused_with_key<Node>(set, 1, first));
    EXPECT_TRUE(is_refused_with_key<Node>(set, 2, first));
    const std::unordered_multiset<int> multi{10, 20, 30};
    EXPECT_FALSE(is_refused_with_key<Node>(multi, 1, *multi.begin()));
}

// Looks at everything that a receiver could look at.
template <class Container>
void use(const Container& container) {
    std::size_t count = 0;
    for (const auto& element : container) {
        static_cast<void>(element);
        ASSERT_LT(++count, 10'000u);
    }
    const Container copy(container);
    if constexpr (requires { copy.size(); }) {
        ASSERT_EQ(copy.size(), container.size());
    }
    if constexpr (requires { typename Container::key_type; })
        for (const auto& element : container) {
            if constexpr (requires { typename Container::mapped_type; })
                ASSERT_NE(container.find(element.first), container.end());
            else
                ASSERT_NE(container.find(element), container.end());
        }
}

template <class Container>
class TamperedContainers : public testing::Test {
  public:
    using Value = typename Container::value_type;
    struct Root {
        Container one, two;
        std::vector<const Value*> values;
    };
    static void fill(Container& container, int first) {
        for (int i = first; i < first + 70; ++i) {
            const std::string name =
                "name " + std::string(static_cast<std::size_t>(i % 20), 'x') + std::to_string(i);
            if constexpr (requires { typename Container::mapped_type; })
                container.emplace(name, i);
            else if constexpr (requires { container.insert(name); })
                container.insert(name);
            else if constexpr (requires { container.push_back(name); })
                container.push_back(name);
            else
                container.push_front(name);
        }
    }
};
using Kinds =
    testing::Types<std::list<std::string>, std::forward_list<std::string>, std::deque<std::string>,
                   std::map<std::string, int>, std::multiset<std::string>,
                   std::unordered_map<std::string, int>, std::unordered_multiset<std::string>>;
TYPED_TEST_SUITE(TamperedContainers, Kinds);

TYPED_TEST(TamperedContainers, are_refused_or_can_be_used) {
    typename TestFixture::Root root;
    this->fill(root.one, 0);
    this->fill(root.two, 100);
    for (const auto& value : root.two) root.values.push_back(&value);
    Loopback<typename TestFixture::Root> loopback;
    loopback.send(root);
    const std::uint64_t words = loopback.image_bytes / 8;
    std::mt19937_64 random(1);
    int refused = 0;
    for (int round = 0; round < 2000; ++round) {
        // Half of them hit the root, where the counts are.
        const std::uint64_t at = 8 * (random() % (round % 2 == 0 ? words : sizeof root / 8));
        const std::uint64_t values[] = {random() % 200, random(),
                                        kPlaceBit | random() % (words * 8),
                                        kPlaceBit | random() % words * 8, ~std::uint64_t{0}};
        write_at_start(loopback, at, values[random() % 5]);
        refused += is_refused([&] {
            const auto& got = loopback.send(root);
            use(got.one);
            use(got.two);
        });
        if (this->HasFatalFailure()) return;
    }
    EXPECT_GT(refused, 100);
}

// ---- nodes of two owners ----
template <class Container>
struct Two {
    Container late, early;
    const typename Container::value_type* one = nullptr;  // so that nodes are claimed
};

// Sends two containers of three nodes, but the nodes of `late` lead where `leads` says: to the
// nodes 0 to 2 of `early`, or to those of `late` that have come, from 3 on; -1 is a new one.
template <class Container, class Node>
class SharedNodes {
  public:
    explicit SharedNodes(const Two<Container>& root)
        : arena_(std::make_shared<Arena>(ArenaOptions{})),
          packing_(arena_),
          packer_(packing_, root, {}) {
        EXPECT_TRUE(packer_.run());
        for (const Piece& piece : packer_.staging().pieces())
            image_.insert(image_.end(), piece.from, piece.from + piece.bytes);
    }
    const Two<Container>& send(const std::vector<int>& leads) {
        const std::uint64_t first = image_.size() - sizeof(Node) - 5 * kStride;
        std::uint64_t end = first + 3 * kStride;
        std::memcpy(memory_.get(), image_.data(), image_.size());
        std::vector<PlaceRecord> places;
        for (std::uint64_t i = 0; i < leads.size(); ++i) {
            if (leads[i] >= 0) {
                places.push_back({4 + i, first + static_cast<std::uint64_t>(leads[i]) * kStride});
            } else {
                std::memcpy(memory_.get() + end, image_.data() + first + (3 + i) * kStride,
                            sizeof(Node));
                end += kStride;
            }
        }
        Mender<Two<Container>> mender(mending_, false);
        mender.add_memory(0, memory_.get(), kSegmentBytes);
        mender.add_records(places, {});
        const std::uint64_t steps =
            kHasReferences<Node> ? packer_.steps() - places.size() : packer_.steps();
        mender.advance_to({end - kStride + sizeof(Node), steps, 7, true});
        EXPECT_TRUE(mender.run());
        return *static_cast<const Two<Container>*>(mender.root());
    }

  private:
    static constexpr std::uint64_t kStride = round_to(sizeof(Node), kImageGranule);
    struct Free {
        void operator()(std::byte* memory) const {
            ::operator delete (memory, std::align_val_t{4096});
        }
    };

    std::shared_ptr<Arena> arena_;
    PackTables packing_;
    MendTables mending_;
    Packer<Two<Container>> packer_;
    std::vector<std::byte> image_;
    std::unique_ptr<std::byte, Free> memory_{
        static_cast<std::byte*>(::operator new (kSegmentBytes, std::align_val_t{4096}))};
};

// The same, with every way in which nodes may lead. Returns how many were refused, of 342.
template <class Container, class Node>
int refusals(const Two<Container>& root) {
    SharedNodes<Container, Node> shared(root);
    EXPECT_FALSE(is_refused([&] { shared.send({-1, -1, -1}); }));
    int refused = 0;
    for (int way = 1; way < 343; ++way) {
        const std::vector<int> leads{way % 7 - 1, way / 7 % 7 - 1, way / 49 - 1};
        refused += is_refused([&] {
            const auto& got = shared.send(leads);
            use(got.late);
            use(got.early);
        });
    }
    return refused;
}

TEST(NodesOfTwoOwners, are_refused_where_links_lead_back) {
    EXPECT_EQ((refusals<std::list<int>, ListNode<int>>({{1, 2, 3}, {4, 5, 6}})), 342);
    EXPECT_EQ((refusals<std::multiset<int>, TreeNode<int>>({{7, 7, 7}, {7, 7, 7}})), 342);
    using Texts = std::multiset<std::string>;
    EXPECT_EQ((refusals<Texts, TreeNode<std::string>>({{"7", "7", "7"}, {"7", "7", "7"}})), 342);
}

TEST(NodesOfTwoOwners, never_make_a_ring_of_a_chain) {
    EXPECT_GT((refusals<std::forward_list<int>, ChainNode<int>>({{1, 2, 3}, {4, 5, 6}})), 100);
    using Table = std::unordered_multiset<int>;
    EXPECT_GT((refusals<Table, HashNode<int, false>>({{7, 7, 7}, {7, 7, 7}})), 100);
    using Texts = std::unordered_multiset<std::string>;
    EXPECT_GT((refusals<Texts, HashNode<std::string, true>>({{"7", "7", "7"}, {"7", "7", "7"}})),
              100);
}

}  // namespace
}  // namespace verbatim::objects
