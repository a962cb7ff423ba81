// Composed messages: made where they are sent from, verified where they came.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::composed {

constexpr const char* kLong = "a text that is too long to lie in its string";

struct Leaf {
    int value = 7;
    std::pmr::string text;
};
struct Cabinet {
    std::pmr::string name, note;
    std::pmr::vector<Leaf> leaves;
    std::pmr::vector<bool> flags;
    std::pmr::list<std::pmr::string> list;
    std::pmr::forward_list<int> chain;
    std::pmr::deque<std::uint32_t> deque;
    std::pmr::deque<std::pmr::string> words;
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> map;
    std::pmr::multiset<int> set;
    std::pmr::unordered_map<std::uint32_t, std::pmr::string> table;
    std::pmr::unordered_map<int, int> single;
    std::pmr::unordered_set<std::pmr::string> names;
    std::variant<int, std::pmr::string> one;
    std::optional<std::pmr::string> maybe;
    std::array<std::pmr::string, 2> pair;
    std::shared_ptr<Leaf> shared;
    std::unique_ptr<Leaf> owned;
    // To others of these.
    Leaf* leaf = nullptr;
    Leaf* apart = nullptr;
    std::pmr::string* word = nullptr;
    std::string_view view;
    std::span<const std::uint32_t> numbers;
    std::pmr::vector<std::uint32_t> array;
    Cabinet* next = nullptr;
};
struct Chain {
    std::pmr::vector<std::uint64_t> numbers;
    Chain* next = nullptr;
};

}  // namespace verbatim::composed

VERBATIM_COMPOSED(verbatim::composed::Cabinet);
VERBATIM_COMPOSED(verbatim::composed::Chain);
VERBATIM_COMPOSED(std::pmr::vector<std::pmr::string>);

namespace verbatim::composed {
namespace {

using test::Pair;

void fill(ComposedMessage<Cabinet>& message, Cabinet& cabinet) {
    cabinet.name = "short";
    cabinet.note = kLong;
    cabinet.note = "short again";  // its memory stays outside of the string
    for (int i = 0; i < 20; ++i) {
        Leaf& leaf = cabinet.leaves.emplace_back(
            Leaf{i, std::pmr::string(i % 2 == 0 ? "even" : kLong, message.resource())});
        leaf.value = i;
        cabinet.flags.push_back(i % 3 == 0);
        cabinet.list.emplace_back(i % 2 == 0 ? "even" : kLong);
        cabinet.chain.push_front(i);
        cabinet.map[std::pmr::string(std::to_string(i))].assign(static_cast<std::size_t>(i), i);
        cabinet.set.insert(i % 5);
        cabinet.table[static_cast<std::uint32_t>(i * 77)] = kLong;
        cabinet.names.emplace(std::to_string(i) + kLong);
    }
    for (std::uint32_t i = 0; i < 1000; ++i) cabinet.deque.push_back(i);
    for (std::uint32_t i = 0; i < 300; ++i) cabinet.deque.pop_front();
    for (int i = 0; i < 50; ++i) cabinet.words.emplace_front(kLong);
    cabinet.one = std::pmr::string(kLong, message.resource());
    cabinet.maybe.emplace(kLong, message.resource());
    cabinet.pair[1] = kLong;
    cabinet.owned.reset(message.make<Leaf>());
    cabinet.leaf = &cabinet.leaves[3];
    cabinet.apart = message.make<Leaf>();
    cabinet.apart->text = kLong;
    cabinet.shared = std::allocate_shared<Leaf>(
        std::pmr::polymorphic_allocator<Leaf>(message.resource()));
    cabinet.shared->text = std::pmr::string("shared", message.resource());
    cabinet.word = &cabinet.list.back();
    cabinet.view = std::string_view(cabinet.leaves[1].text).substr(2, 9);
    cabinet.array.assign(100, 5);
    cabinet.numbers = std::span(cabinet.array).subspan(10, 20);
}

void expect_inner(const Cabinet& got) {
    EXPECT_EQ(got.leaf, &got.leaves[3]);
    EXPECT_EQ(got.apart->text, kLong);
    EXPECT_EQ(got.apart->value, 7);
    EXPECT_EQ(got.owned->value, 7);
    EXPECT_EQ(got.shared->text, "shared");
    EXPECT_EQ(got.word, &got.list.back());
    EXPECT_EQ(got.view.data(), got.leaves[1].text.data() + 2);
    EXPECT_EQ(got.numbers.data(), got.array.data() + 10);
    EXPECT_EQ(std::get<1>(got.one), kLong);
    EXPECT_EQ(*got.maybe, kLong);
    EXPECT_EQ(got.pair[1], kLong);
}
void expect_filled(const Cabinet& got) {
    EXPECT_EQ(got.name, "short");
    EXPECT_EQ(got.note, "short again");
    ASSERT_EQ(got.leaves.size(), 20u);
    EXPECT_EQ(got.leaves[19].value, 19);
    EXPECT_EQ(got.leaves[19].text, kLong);
    EXPECT_EQ(std::count(got.flags.begin(), got.flags.end(), true), 7);
    EXPECT_EQ(got.list.size(), static_cast<std::size_t>(std::distance(got.list.rbegin(),
                                                                       got.list.rend())));
    EXPECT_EQ(std::distance(got.chain.begin(), got.chain.end()), 20);
    EXPECT_EQ(got.chain.front(), 19);
    EXPECT_EQ(got.deque.size(), 700u);
    for (std::uint32_t i = 0; i < 700; ++i) ASSERT_EQ(got.deque[i], i + 300);
    EXPECT_EQ(std::count(got.words.begin(), got.words.end(), kLong), 50);
    EXPECT_EQ(got.map.at("17").size(), 17u);
    EXPECT_EQ(got.map.size(), static_cast<std::size_t>(std::distance(got.map.begin(),
                                                                     got.map.end())));
    EXPECT_EQ(got.set.count(4), 4u);
    EXPECT_EQ(got.table.at(77 * 19), kLong);
    EXPECT_EQ(got.table.size(), 20u);
    EXPECT_EQ(got.single.size(), got.single.empty() ? 0u : got.single.count(5));
    EXPECT_EQ(got.names.count(std::pmr::string("7") + kLong), 1u);
    expect_inner(got);
}

// Drives both ends from this thread.
template <class T>
std::pair<Received<T>, SendReport> pass_on(Pair& pair, const ComposedMessage<T>& message) {
    ComposedSendOperation<T> sending(*pair.sender, message);
    ReceiveOperation<T> receiving(*pair.receiver);
    bool sent = false, received = false;
    for (const Deadline deadline = Deadline::after(std::chrono::seconds(20)); !sent || !received;) {
        sent = sent || sending.step();
        received = received || receiving.step();
        if (deadline.passed()) throw Error(Errc::timeout, "test transfer", "it does not end");
    }
    return {receiving.take(), sending.report()};
}

TEST(Composed, objects_of_every_kind_arrive_in_one_message) {
    Pair pair;
    auto message = compose<Cabinet>(*pair.sender);
    fill(message, *message);
    message->single.emplace(5, 6);
    message->next = message.make<Cabinet>();
    fill(message, *message->next);
    message->next->next = &*message;
    const auto [got, report] = pass_on(pair, message);
    EXPECT_TRUE(report.composed);
    EXPECT_EQ(report.objects, got.report().objects);
    expect_filled(*got);
    expect_filled(*got->next);
    EXPECT_EQ(got->next->next, got.get());
    EXPECT_EQ(got->name.get_allocator().resource(), std::pmr::null_memory_resource());
    expect_filled(*message);  // still the program's
}

TEST(Composed, small_ones_go_in_one_message_of_the_ring) {
    Pair pair;
    auto message = compose<Chain>(*pair.sender);
    message->numbers = {1, 2, 3};
    message->next = &*message;
    for (int i = 0; i < 3; ++i) {
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        EXPECT_EQ(got->numbers.back(), static_cast<std::uint64_t>(3 + i));
        EXPECT_EQ(got->next, got.get());
        message->numbers.push_back(static_cast<std::uint64_t>(4 + i));
    }
}

// Of the second message on: the first one tells the receiver of the wish.
TEST(Composed, objects_lie_at_the_receiver_where_they_were_composed) {
    if (std::string_view(test::small_config().softnic.port) != Config().softnic.port)
        GTEST_SKIP() << "of one port is enough";
    Pair pair;
    bool was_in_place = false;
    for (int i = 0; i < 4; ++i) {
        auto message = compose<Chain>(*pair.sender);
        message->numbers.assign(50000, 7);
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        EXPECT_EQ(got->numbers.size(), 50000u);
        EXPECT_EQ(got->numbers.back(), 7u);
        was_in_place = was_in_place || &*message == got.get();
    }
#if !defined(__SANITIZE_THREAD__)
    EXPECT_TRUE(was_in_place);
#endif
}

TEST(Composed, what_lies_outside_goes_the_ordinary_way) {
    Pair pair;
    auto message = compose<Cabinet>(*pair.sender);
    fill(message, *message);
    Leaf outside;
    outside.text = kLong;
    message->apart = &outside;
    const auto [got, report] = pass_on(pair, message);
    EXPECT_FALSE(report.composed);
    expect_filled(*got);

    auto large = compose<Chain>(*pair.sender, {.most_bytes = 4096});
    large->numbers.assign(10000, 3);
    const auto [whole, how] = pass_on(pair, large);
    EXPECT_FALSE(how.composed);
    EXPECT_EQ(whole->numbers.size(), 10000u);
}

TEST(Composed, a_hostile_receiver_gets_the_same_graph) {
    Config careful = test::small_config();
    careful.objects.hostile = true;
    Pair pair(test::small_config(), careful);
    for (int i = 0; i < 2; ++i) {
        auto message = compose<Cabinet>(*pair.sender);
        fill(message, *message);
        const auto [got, report] = pass_on(pair, message);
        EXPECT_TRUE(report.composed);
        expect_filled(*got);
    }
}

}  // namespace
}  // namespace verbatim::composed
