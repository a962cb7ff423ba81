// Lives of received graphs: kept without a window, shared in parts, cloned, forwarded.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"

namespace verbatim::lives {

struct Vessel {
    virtual ~Vessel() = default;
    virtual int oars() const { return 0; }
    std::string name;
};
VERBATIM_DESCRIBE(Vessel, name)
struct Boat : Vessel {
    int oars() const override { return 2; }
};
VERBATIM_DESCRIBE_DERIVED(Boat, (Vessel))
struct Galley : Vessel {
    int oars() const override { return 170; }
};
VERBATIM_DESCRIBE_DERIVED(Galley, (Vessel))

namespace {

using test::Pair;

const std::string kLong = "a text that is too long to lie in its string";

struct Item {
    std::string name;
    std::vector<std::uint64_t> numbers;
    Item* partner = nullptr;
};
struct Order {
    std::vector<Item> items;
    Item* first = nullptr;
};

Order make_order(std::size_t items, std::size_t numbers = 3) {
    Order order;
    for (std::size_t i = 0; i < items; ++i)
        order.items.push_back({kLong, std::vector<std::uint64_t>(numbers, i), nullptr});
    for (std::size_t i = 0; i < items; ++i) order.items[i].partner = &order.items[items - 1 - i];
    order.first = &order.items[0];
    return order;
}
void expect_order(const Order& got, std::size_t items) {
    ASSERT_EQ(got.items.size(), items);
    for (std::size_t i = 0; i < items; ++i) {
        EXPECT_EQ(got.items[i].name, kLong);
        EXPECT_EQ(got.items[i].numbers.back(), i);
        EXPECT_EQ(got.items[i].partner, &got.items[items - 1 - i]);
    }
    EXPECT_EQ(got.first, &got.items[0]);
}
std::uint64_t used(Pair& pair) { return pair.receiver->receive_arena().usage().allocated_bytes; }

TEST(Lives, a_compacted_graph_holds_no_memory_of_windows) {
    Pair pair;
    { const auto warm = pair.transfer(make_order(10, 20'000)); }
    const std::uint64_t before = used(pair);
    std::optional<Received<Order>> small(pair.transfer(make_order(3)));
    std::optional<Received<Order>> large(pair.transfer(make_order(10, 20'000)));
    EXPECT_GT(used(pair), before);
    small->compact();
    large->compact();
    EXPECT_FALSE(pair.receiver->receive_arena().contains(small->get()));
    EXPECT_FALSE(pair.receiver->receive_arena().contains(large->get()->items[9].numbers.data()));
    expect_order(**small, 3);
    expect_order(**large, 10);
    // Its slots take the next graphs: soon no more memory is needed, however many are kept.
    std::vector<Received<Order>> kept;
    std::uint64_t after_some = 0;
    for (int i = 0; i < 60; ++i) {
        kept.push_back(pair.transfer(make_order(10, 20'000)));
        kept.back().compact();
        if (i == 20) after_some = used(pair);
    }
    EXPECT_EQ(used(pair), after_some);
    large->mutable_view().items[0].numbers[0] = 7;
    pair.sender.reset();
    pair.receiver.reset();
    expect_order(**small, 3);
}

TEST(Lives, parts_keep_the_graph_and_outlive_everything_else) {
    std::shared_ptr<const std::string> name;
    std::optional<Received<const Item>> item;
    {
        Pair pair;
        auto order = pair.transfer(make_order(4));
        name = order.share(&order->items[1].name);
        item.emplace(order.part(&order->items[2]));
    }
    EXPECT_EQ(*name, kLong);
    EXPECT_EQ(item->get()->partner->numbers.front(), 1u);
    std::thread([part = std::move(name)]() mutable { part.reset(); }).join();
    EXPECT_EQ(item->get()->name, kLong);
}

TEST(Lives, a_part_that_is_shared_stays_where_it_is_while_the_rest_is_compacted) {
    Pair pair;
    auto order = pair.transfer(make_order(4));
    const auto item = order.share(&order->items[2]);
    order.compact();
    EXPECT_NE(&order->items[2], item.get());
    EXPECT_EQ(item->partner->numbers.front(), 1u);
    expect_order(*order, 4);
}

TEST(Lives, one_of_many_is_promoted_and_the_rest_is_freed) {
    Pair pair;
    const std::uint64_t before = used(pair);
    std::vector<std::vector<std::string>> many(100, std::vector<std::string>(3, kLong));
    many[42].push_back("kept");
    std::optional<Received<std::vector<std::vector<std::string>>>> all(pair.transfer(many));
    auto one = all->promote(&(*all)->at(42));
    all.reset();
    EXPECT_EQ(used(pair), before);
    EXPECT_EQ(*one, many[42]);
    EXPECT_LT(one.report().object_bytes, 1000u);
    one.mutable_view()[3][0] = 'K';
    EXPECT_EQ(one->at(3), "Kept");
}

using Fleet = std::vector<std::unique_ptr<Vessel>>;

template <class V>
Fleet make_fleet() {
    Fleet fleet;
    fleet.push_back(std::make_unique<V>());
    fleet.back()->name = kLong;
    return fleet;
}

struct Base {
    std::string title;
    std::uint8_t flag = 1;
};
VERBATIM_DESCRIBE(Base, title, flag)
struct Owner : Base {
    std::unique_ptr<Owner> next;
    std::vector<std::unique_ptr<Owner>> children;
    std::shared_ptr<std::string> shared;
    std::map<std::string, std::vector<std::shared_ptr<std::string>>> index;
    std::unordered_multimap<int, std::string> words;
    std::variant<int, std::string> either;
    std::optional<std::list<std::string>> lines;
    std::array<std::string, 2> two;
    std::pair<std::pmr::string, std::forward_list<int>> both;
    std::deque<bool> bits;
    std::vector<bool> flags;
    std::uint32_t count = 0;
    std::unique_ptr<std::string[]> texts;
};
VERBATIM_DESCRIBE_DERIVED(Owner, (Base), next, children, shared, index, words, either, lines, two,
                          both, bits, flags, count, texts)
VERBATIM_COUNTED(Owner, (texts, count))

std::unique_ptr<Owner> make_owner() {
    auto owner = std::make_unique<Owner>();
    owner->title = kLong;
    owner->shared = std::make_shared<std::string>(kLong);
    owner->index["key"] = {owner->shared, owner->shared, nullptr};
    owner->words = {{1, "a"}, {1, kLong}};
    owner->either = kLong;
    owner->lines = {"x", kLong};
    owner->two = {"y", kLong};
    owner->both = {std::pmr::string(kLong), {1, 2, 3}};
    owner->bits = {true, false};
    owner->flags = {true, false, true};
    owner->count = 2;
    owner->texts = std::make_unique<std::string[]>(2);
    owner->texts[1] = kLong;
    return owner;
}

TEST(Lives, a_clone_is_made_of_ordinary_objects) {
    std::unique_ptr<Owner> clone;
    {
        Pair pair;
        const auto root = make_owner();
        root->next = make_owner();
        root->next->shared = root->shared;
        root->children.push_back(make_owner());
        clone = pair.transfer(*root).clone();
    }
    EXPECT_EQ(clone->title, kLong);
    EXPECT_EQ(clone->shared.use_count(), 4) << "itself, two of the index, and one of the next";
    EXPECT_EQ(clone->next->shared, clone->shared);
    EXPECT_EQ(clone->index.at("key")[1], clone->shared);
    EXPECT_EQ(clone->index.at("key")[2], nullptr);
    EXPECT_EQ(clone->words.count(1), 2u);
    EXPECT_EQ(std::get<std::string>(clone->either), kLong);
    EXPECT_EQ(*clone->lines, (std::list<std::string>{"x", kLong}));
    EXPECT_EQ(clone->two[1], kLong);
    EXPECT_EQ(std::string_view(clone->both.first), kLong);
    EXPECT_EQ(clone->both.second, (std::forward_list<int>{1, 2, 3}));
    EXPECT_EQ(clone->bits, (std::deque<bool>{true, false}));
    EXPECT_EQ(clone->flags, (std::vector<bool>{true, false, true}));
    EXPECT_EQ(clone->texts[1], kLong);
    EXPECT_EQ(clone->children.at(0)->title, kLong);
    // It grows, and ends, as objects do.
    clone->title += kLong;
    clone->children.push_back(make_owner());
    clone->index["another"];
    clone->words.emplace(2, "b");
    clone->both.first += kLong;
    clone->next.reset();
    EXPECT_EQ(clone->shared.use_count(), 3);
}

TEST(Lives, a_long_chain_of_owners_is_cloned_without_deep_calls) {
    Pair pair;
    auto root = std::make_unique<Owner>();
    for (int i = 0; i < 20'000; ++i) {
        auto next = std::make_unique<Owner>();
        next->next = std::move(root);
        root = std::move(next);
    }
    const auto free = [](std::unique_ptr<Owner> chain) {
        int length = 0;
        for (; chain; ++length) chain = std::move(chain->next);
        return length;
    };
    auto clone = pair.transfer(*root).clone();
    EXPECT_EQ(free(std::move(clone)), 20'001);
    free(std::move(root));
}

// From the first pair's sender to the second pair's receiver, by one process in between.
struct Chain {
    explicit Chain(const Config& config = test::small_config())
        : first(config, config), second(config, config) {}

    template <class T>
    Received<T> receive_forwardable(const T& root) {
        SendOperation<T> sending(*first.sender, root);
        ReceiveOperation<T> receiving(*first.receiver, {.forwardable = true});
        bool sent = false, received = false;
        for (const Deadline deadline = soon(); !sent || !received;) {
            sent = sent || sending.step();
            received = received || receiving.step();
            if (deadline.passed()) throw Error(Errc::timeout, "test", "it does not arrive");
        }
        return receiving.take();
    }
    template <class T>
    Received<T> forward(const Received<T>& graph) {
        ForwardOperation sending(*second.sender, graph.image());
        ReceiveOperation<T> receiving(*second.receiver);
        bool sent = false, received = false;
        for (const Deadline deadline = soon(); !sent || !received;) {
            sent = sent || sending.step();
            received = received || receiving.step();
            if (deadline.passed()) throw Error(Errc::timeout, "test", "it is not forwarded");
        }
        report = sending.report();
        return receiving.take();
    }
    static Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

    Pair first, second;
    SendReport report;
};

TEST(Forwarding, graphs_of_all_sizes_arrive_as_they_were_sent) {
    Chain chain;
    for (const auto& [items, numbers] : {std::pair<std::size_t, std::size_t>{1, 1},
                                         {3, 3},
                                         {30, 1'000},
                                         {10, 200'000},
                                         {10'000, 3}}) {
        const auto graph = chain.receive_forwardable(make_order(items, numbers));
        ASSERT_TRUE(graph.is_forwardable());
        expect_order(*graph, items);
        const auto third = chain.forward(graph);
        expect_order(*third, items);
        EXPECT_EQ(chain.report.objects, graph.report().objects);
        EXPECT_EQ(chain.report.object_bytes, graph.report().object_bytes);
        expect_order(*chain.forward(graph), items);  // and once more
    }
}

TEST(Forwarding, hostile_receivers_forward_too) {
    Config config = test::small_config();
    config.objects.hostile = true;
    Chain chain(config);
    const auto graph = chain.receive_forwardable(make_order(2'000, 200));
    expect_order(*chain.forward(graph), 2'000);
}

TEST(Forwarding, buckets_of_more_than_a_segment_have_room_at_the_next_receiver) {
    Chain chain;
    std::unordered_map<int, int> table;
    for (int i = 0; i < 100'000; ++i) table[i] = -i;
    const auto graph = chain.receive_forwardable(table);
    EXPECT_EQ(*chain.forward(graph), table);
    EXPECT_EQ(*graph.promote(graph.get()), table);
}

TEST(Forwarding, texts_that_were_amended_and_references_in_many_fragments_arrive) {
    Chain chain;
    std::vector<std::string> texts(30'000, kLong);
    for (std::size_t i = 0; i < texts.size(); i += 2) texts[i].resize(3);  // still on the heap
    const auto graph = chain.receive_forwardable(texts);
    EXPECT_EQ(*chain.forward(graph), texts);
}

TEST(Forwarding, a_graph_that_may_have_changed_is_walked) {
    Chain chain;
    auto graph = chain.receive_forwardable(make_order(3));
    graph.mutable_view().items[1].name[0] = 'A';
    EXPECT_FALSE(graph.is_forwardable());
    SendOptions options;
    options.deadline = Chain::soon();
    send(*chain.second.sender, graph, options);  // in one message: it waits for nothing
    const auto third = receive<Order>(*chain.second.receiver, {Chain::soon()});
    EXPECT_EQ(third->items[1].name, "A" + kLong.substr(1));
    auto compacted = chain.receive_forwardable(make_order(3));
    compacted.compact();
    EXPECT_FALSE(compacted.is_forwardable());
}

// Its classes have the numbers of the connection by which it came.
TEST(Forwarding, a_graph_with_virtual_functions_is_walked) {
    Chain chain;
    EXPECT_EQ(chain.second.transfer(make_fleet<Galley>())->at(0)->oars(), 170);
    const auto graph = chain.receive_forwardable(make_fleet<Boat>());
    EXPECT_FALSE(graph.is_forwardable());
    SendOptions options;
    options.deadline = Chain::soon();
    send(*chain.second.sender, graph, options);  // in one message: it waits for nothing
    const auto third = receive<Fleet>(*chain.second.receiver, {Chain::soon()});
    EXPECT_EQ(third->at(0)->oars(), 2);
    EXPECT_EQ(third->at(0)->name, kLong);
}

// The child receives by the first of two connections and forwards by the second one. It dies when
// a part has left.
[[noreturn]] void forward_and_die(std::uint16_t from, std::uint16_t to) {
    try {
        Context context(test::small_config());
        Connection source = context.connect(test::local(from));
        Connection sink = context.connect(test::local(to));
        const auto graph = receive<Order>(source, {.deadline = Chain::soon(), .forwardable = true});
        ForwardOperation forwarding(sink, graph.image());
        while (forwarding.report().wire_bytes < std::uint64_t{1} << 20) forwarding.step();
        raise(SIGKILL);
    } catch (const Error& error) {
        std::fprintf(stderr, "forwarder: %s\n", error.what());
    }
    _exit(1);
}

TEST(Forwarding, nothing_of_a_forwarder_that_dies_in_the_middle_is_received) {
    int ports[2];
    ASSERT_EQ(pipe(ports), 0);
    const pid_t child = fork();
    if (child == 0) {
        std::uint16_t numbers[2];
        if (read(ports[0], numbers, sizeof numbers) != sizeof numbers) _exit(2);
        forward_and_die(numbers[0], numbers[1]);
    }
    Context context(test::small_config());
    Listener first = context.listen("127.0.0.1:0"), second = context.listen("127.0.0.1:0");
    const std::uint16_t numbers[2] = {first.port(), second.port()};
    ASSERT_EQ(write(ports[1], numbers, sizeof numbers),
              std::ssize(std::as_bytes(std::span(numbers))));
    Connection source = first.accept(Chain::soon()), sink = second.accept(Chain::soon());
    send(source, make_order(30'000), {Chain::soon()});
    EXPECT_EQ(test::error_of([&] { (void)receive<Order>(sink, {Chain::soon()}); }).code(),
              Errc::peer_lost);
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(ports[0]);
    close(ports[1]);
}

}  // namespace
}  // namespace verbatim::lives
