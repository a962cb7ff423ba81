// Graphs over a real connection: both ends in this process, the software NIC in strict mode between
// them.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core_fault.hpp"
#include "objects_pair.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using test::error_of;

using test::Pair;
using test::small_config;
using namespace std::chrono_literals;

struct Point {
    double x = 0, y = 0;
};

struct Package {
    std::pmr::string name;
    std::pmr::vector<Package*> needs;
    Package* provider = nullptr;
};

TEST(Transfer, a_cyclic_graph_arrives_and_lies_in_the_receivers_arena) {
    Pair pair;
    Arena& arena = pair.sender_context.arena();
    auto* a =
        arena.make<Package>(std::pmr::string("first, with a long name that is kept apart", &arena),
                            std::pmr::vector<Package*>(&arena));
    auto* b =
        arena.make<Package>(std::pmr::string("b", &arena), std::pmr::vector<Package*>(&arena));
    a->needs = {b, a};
    b->needs = {a};
    b->provider = a;
    const auto graph = pair.transfer(*a);
    EXPECT_EQ(graph->name, a->name);
    ASSERT_EQ(graph->needs.size(), 2u);
    EXPECT_EQ(graph->needs[1], graph.get());
    EXPECT_EQ(graph->needs[0]->provider, graph.get());
    EXPECT_TRUE(pair.receiver->receive_arena().contains(graph.get()));
    EXPECT_EQ(graph.report().objects, 5u);
}

std::vector<Point*> make_points(Arena& arena, std::size_t count, bool on_heap) {
    std::vector<Point*> points(count);
    for (std::size_t i = 0; i < count; ++i) {
        const Point point{static_cast<double>(i), -static_cast<double>(i)};
        points[i] = on_heap ? new Point(point) : arena.make<Point>(point);
    }
    return points;
}

void expect_equal(const std::vector<Point*>& a, const std::vector<Point*>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        ASSERT_EQ(a[i]->x, b[i]->x);
        ASSERT_EQ(a[i]->y, b[i]->y);
    }
}

TEST(Transfer, objects_in_an_arena_on_the_heap_and_in_any_order_arrive_alike) {
    Pair pair;
    std::mt19937 random(1);
    for (const bool on_heap : {false, true})
        for (const bool shuffled : {false, true}) {
            auto points = make_points(pair.sender_context.arena(), 20000, on_heap);
            if (shuffled) std::shuffle(points.begin(), points.end(), random);
            const auto graph = pair.transfer(points);
            expect_equal(*graph, points);
            if (on_heap)
                for (Point* point : points) delete point;
        }
}

TEST(Transfer, a_graph_spans_segments_of_both_arenas) {
    Pair pair;  // segments of 2 MiB
    auto points = make_points(pair.sender_context.arena(), 400'000, false);
    const auto graph = pair.transfer(points);
    expect_equal(*graph, points);
    EXPECT_GT(graph.report().object_bytes, std::uint64_t{9} << 20);
}

TEST(Transfer, one_large_array_arrives_whole) {
    Pair pair;
    std::vector<std::uint32_t> numbers(3'000'000);
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::uint32_t>(i * 2654435761u);
    EXPECT_EQ(*pair.transfer(numbers), numbers);
    Arena& arena = pair.sender_context.arena();
    const std::pmr::vector<std::uint32_t> there(numbers.begin(), numbers.end(), &arena);
    const auto graph = pair.transfer(there);
    EXPECT_TRUE(std::equal(graph->begin(), graph->end(), numbers.begin(), numbers.end()));
}

// Of the heap, of a mapping, and const.
TEST(Transfer, large_arrays_outside_of_the_arena_leave_under_leases_of_a_cache) {
    struct Sample {
        std::string name;
        std::vector<double> values;
        std::span<const std::uint32_t> numbers;
        std::vector<float> few;
    };
    Pair pair;
    RegistrationOptions options;
    options.copy_below = 64 << 10;
    RegistrationCache cache(pair.sender_context, options);
    const std::vector<std::uint32_t> numbers(300'000, 77);
    std::vector<Sample> samples(3);
    for (Sample& sample : samples)
        sample = {"a name", std::vector<double>(200'000, 1.5), numbers, std::vector<float>(10)};
    for (const bool is_again : {false, true}) {
        samples[1].values[199'999] = is_again ? 9 : 4;
        const auto received = pair.transfer(samples, {.foreign = &cache});
        for (std::size_t i = 0; i < samples.size(); ++i) {
            EXPECT_EQ((*received)[i].name, "a name");
            EXPECT_EQ((*received)[i].values, samples[i].values);
            EXPECT_TRUE(std::ranges::equal((*received)[i].numbers, numbers));
        }
        EXPECT_EQ(cache.usage().in_flight, 0u);
        EXPECT_EQ(cache.usage().misses, 4u);
        EXPECT_EQ(cache.usage().hits, is_again ? 4u : 0u);
    }
    samples[0].values.clear();
    samples[0].values.shrink_to_fit();
    EXPECT_EQ(*pair.transfer(samples[2].values, {.foreign = &cache}), samples[2].values);
}

TEST(Transfer, large_arrays_that_cannot_be_registered_are_copied) {
    Pair pair;
    RegistrationOptions options;
    options.copy_below = 64 << 10;
    options.max_bytes = 64 << 10;
    RegistrationCache cache(pair.sender_context, options);
    const std::vector<double> values(200'000, 2.5);
    EXPECT_EQ(*pair.transfer(values, {.foreign = &cache}), values);
    EXPECT_EQ(cache.usage().entries, 0u);
}

TEST(Transfer, a_short_string_that_was_longer_once_is_rewritten_on_the_way) {
    Pair pair;
    Arena& arena = pair.sender_context.arena();
    std::pmr::vector<std::pmr::string> strings(&arena);
    for (int i = 0; i < 2000; ++i) {
        strings.emplace_back(100, 'x');
        if (i % 7 == 0) strings.back() = "short " + std::to_string(i);
    }
    const auto graph = pair.transfer(strings);
    EXPECT_TRUE(std::equal(graph->begin(), graph->end(), strings.begin(), strings.end()));
}

TEST(Transfer, random_graphs_arrive_over_tiny_rings) {
    Config config = small_config();
    config.ring.bytes = 4096;
    config.objects.eager_bytes = 512;
    Pair pair(config, config);
    std::mt19937 random(5);
    for (int round = 0; round < 30; ++round) {
        const std::size_t count = 1 + random() % 300;
        Arena& arena = pair.sender_context.arena();
        std::vector<Package*> packages;
        for (std::size_t i = 0; i < count; ++i)
            packages.push_back(arena.make<Package>(
                std::pmr::string(std::string(random() % 60, static_cast<char>('a' + i % 26)),
                                 &arena),
                std::pmr::vector<Package*>(&arena)));
        for (Package* package : packages) {
            for (std::size_t n = random() % 5; n > 0; --n)
                package->needs.push_back(packages[random() % count]);
            package->provider = packages[random() % count];
        }
        const auto graph = pair.transfer(packages);
        ASSERT_EQ(graph->size(), count);
        for (std::size_t i = 0; i < count; ++i) {
            const Package &theirs = *(*graph)[i], &ours = *packages[i];
            ASSERT_EQ(theirs.name, ours.name);
            ASSERT_EQ(theirs.needs.size(), ours.needs.size());
            const auto index = [&](Package* p) {
                return std::find(packages.begin(), packages.end(), p) - packages.begin();
            };
            ASSERT_EQ(theirs.provider, (*graph)[static_cast<std::size_t>(index(ours.provider))]);
            for (std::size_t k = 0; k < ours.needs.size(); ++k)
                ASSERT_EQ(theirs.needs[k],
                          (*graph)[static_cast<std::size_t>(index(ours.needs[k]))]);
        }
        for (Package* package : packages) arena.destroy(package);
    }
}

TEST(Transfer, a_received_graph_outlives_connection_and_context) {
    std::optional<Received<std::vector<std::string>>> graph;
    const std::vector<std::string> strings(10, std::string(50, 'k'));
    {
        Pair pair;
        graph.emplace(pair.transfer(strings));
    }
    EXPECT_EQ(**graph, strings);
}

TEST(Transfer, a_graph_is_received_though_its_sender_has_closed) {
    for (int round = 0; round < 20; ++round) {
        Pair pair;
        const std::vector<int> numbers(1000, round);
        std::thread other([&] {
            send(*pair.sender, numbers, {Deadline::after(20s)});
            pair.sender.reset();
        });
        EXPECT_EQ(*receive<std::vector<int>>(*pair.receiver, {Deadline::after(20s)}), numbers);
        other.join();
    }
}

TEST(Context, says_clearly_that_there_is_no_rdma_device) {
    Config config = small_config();
    config.device.kind = "rdma";
    try {
        Context context(config);
        GTEST_SKIP() << "this machine has an RDMA device";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::no_device) << error.what();
    }
}

TEST(Transfer, both_sides_may_send_first) {
    Pair pair;
    const std::vector<int> a(1000, 1), b(2000, 2);
    std::thread other([&] {
        send(*pair.receiver, b, {Deadline::after(20s)});
        EXPECT_EQ(*receive<std::vector<int>>(*pair.receiver, {Deadline::after(20s)}), a);
    });
    send(*pair.sender, a, {Deadline::after(20s)});
    EXPECT_EQ(*receive<std::vector<int>>(*pair.sender, {Deadline::after(20s)}), b);
    other.join();
}

TEST(Transfer, messages_and_graphs_share_a_connection) {
    Pair pair;
    const std::string hello = "hello";
    pair.sender->send_message(3, std::as_bytes(std::span(hello)), {}, Deadline::after(5s));
    const std::vector<int> numbers{1, 2, 3};
    EXPECT_EQ(*pair.transfer(numbers), numbers);
    const Message message = pair.receiver->receive_message(Deadline::after(5s));
    EXPECT_EQ(message.channel(), 3);
    EXPECT_EQ(message.payload().size(), hello.size());
}

// ---- refusals ----

struct Apple {
    int weight;
    std::string name;
};
struct Pear {
    int weight;
    double name;
};

TEST(Transfer, another_type_is_an_error_of_the_receiver_and_the_connection_goes_on) {
    Pair pair;
    send(*pair.sender, Apple{1, "x"}, {Deadline::after(20s)});
    send(*pair.sender, std::vector<int>{5}, {Deadline::after(20s)});
    const Error error = error_of([&] { receive<Pear>(*pair.receiver, {Deadline::after(20s)}); });
    EXPECT_EQ(error.code(), Errc::type_mismatch) << error.what();
    EXPECT_NE(std::string(error.what()).find("Apple"), std::string::npos) << error.what();
    EXPECT_EQ(*receive<std::vector<int>>(*pair.receiver, {Deadline::after(20s)}),
              std::vector<int>{5});
}

TEST(Transfer, a_sender_that_is_still_at_it_hears_that_another_type_is_wanted) {
    Pair pair;
    const std::vector<Apple> apples(300'000, Apple{1, "an apple"});
    SendOperation<std::vector<Apple>> sending(*pair.sender, apples);
    ReceiveOperation<std::vector<Pear>> receiving(*pair.receiver);
    std::optional<Error> sent, received;
    for (const Deadline deadline = Deadline::after(20s); !sent || !received;) {
        ASSERT_FALSE(deadline.passed());
        try {
            ASSERT_FALSE(!sent && sending.step());
        } catch (const Error& error) {
            sent = error;
        }
        try {
            ASSERT_FALSE(!received && receiving.step());
        } catch (const Error& error) {
            received = error;
        }
    }
    for (const Error* error : {&*sent, &*received}) {
        EXPECT_EQ(error->code(), Errc::type_mismatch) << error->what();
        EXPECT_NE(std::string(error->what()).find("Apple"), std::string::npos) << error->what();
    }
    const std::vector<int> numbers{5};
    EXPECT_EQ(*pair.transfer(numbers), numbers);
}

TEST(Transfer, a_graph_larger_than_the_receivers_arena_is_refused_on_both_sides) {
    Config small = small_config();
    small.receive_arena.max_bytes = std::size_t{4} << 20;
    Pair pair(small_config(), small);
    Error received(Errc::ok, "", "");
    std::thread other([&] {
        received =
            error_of([&] { receive<std::vector<int>>(*pair.receiver, {Deadline::after(20s)}); });
        EXPECT_EQ(receive<std::vector<int>>(*pair.receiver, {Deadline::after(20s)})->size(), 10u);
    });
    const Error sent =
        error_of([&] { send(*pair.sender, std::vector<int>(5'000'000), {Deadline::after(20s)}); });
    send(*pair.sender, std::vector<int>(10), {Deadline::after(20s)});
    other.join();
    for (const Error& error : {sent, received}) {
        EXPECT_EQ(error.code(), Errc::graph_too_large) << error.what();
        EXPECT_NE(std::string(error.what()).find("max_bytes"), std::string::npos) << error.what();
    }
}

TEST(Transfer, a_bad_pointer_is_refused_before_anything_is_sent) {
    Pair pair;
    Arena& arena = pair.sender_context.arena();
    const std::vector<int> good{1};
    EXPECT_EQ(*pair.transfer(good), good);  // else the freed memory would be its staging buffer
    auto* gone = arena.make<Point>();
    arena.destroy(gone);
    const std::vector<Point*> bad{gone};
    EXPECT_EQ(error_of([&] { send(*pair.sender, bad, {Deadline::after(20s)}); }).code(),
              Errc::bad_pointer);
    EXPECT_EQ(*pair.transfer(good), good);
}

TEST(Transfer, a_send_to_a_lane_that_nobody_polls_times_out_and_leaves_the_connection_usable) {
    Pair pair;
    const std::vector<int> first(100'000, 1), second(100'000, 2);
    EXPECT_EQ(error_of([&] { send(*pair.sender, first, {Deadline::after(50ms)}); }).code(),
              Errc::timeout);
    EXPECT_EQ(*pair.transfer(second), second);
}

TEST(Transfer, a_send_that_never_began_leaves_the_connection_usable) {
    Pair pair;
    const std::vector<int> first(10, 1), second(10, 2);
    { const SendOperation<std::vector<int>> discarded(*pair.sender, first); }
    EXPECT_EQ(*pair.transfer(second), second);
    // No room for the graph until the deadline.
    const std::vector<std::byte> text(pair.sender->max_message_bytes());
    std::size_t messages = 0;
    const auto kQuiet = test::kSanitized ? 1s : 200ms;
    const auto fill_ring = [&](std::span<const std::byte> payload) {
        // A send queue is full for a while only.
        for (Deadline quiet = Deadline::after(kQuiet); !quiet.passed();) {
            if (pair.sender->try_send(1, payload) == Errc::ok) {
                ++messages;
                quiet = Deadline::after(kQuiet);
            }
            (void)pair.sender->progress();
        }
    };
    fill_ring(text);
    fill_ring({});
    EXPECT_EQ(error_of([&] { send(*pair.sender, first, {Deadline::after(50ms)}); }).code(),
              Errc::timeout);
    for (std::size_t i = 0; i < messages; ++i) {
        pair.receiver->receive_message(Deadline::after(20s));
    }
    EXPECT_EQ(*pair.transfer(first), first);
}

TEST(Transfer, small_graphs_to_a_receiver_that_has_gone_are_errors) {
    Pair pair;
    const std::vector<int> numbers(10, 1);
    EXPECT_EQ(*pair.transfer(numbers), numbers);
    pair.receiver.reset();
    std::size_t sent = 0;
    const Error first = error_of([&] {
        for (; sent < 1000; ++sent) send(*pair.sender, numbers, {Deadline::after(20s)});
    });
    EXPECT_EQ(first.code(), Errc::peer_lost) << first.what();
    for (int i = 0; i < 20; ++i) {
        const Error next = error_of([&] { send(*pair.sender, numbers); });
        EXPECT_EQ(next.code(), Errc::peer_lost) << next.what();
    }
}

TEST(Transfer, a_receive_without_a_sender_times_out) {
    Pair pair;
    EXPECT_EQ(error_of([&] { receive<int>(*pair.receiver, {Deadline::after(50ms)}); }).code(),
              Errc::timeout);
}

TEST(Transfer, a_sender_that_leaves_in_mid_transfer_is_an_error_for_the_receiver) {
    Pair pair;
    const std::vector<int> numbers(1'000'000, 3);
    std::optional<SendOperation<std::vector<int>>> sending(std::in_place, *pair.sender, numbers);
    ReceiveOperation<std::vector<int>> receiving(*pair.receiver);
    sending->step();
    EXPECT_FALSE(receiving.step());
    sending.reset();
    pair.sender.reset();
    const Error error = error_of([&] {
        for (const Deadline deadline = Deadline::after(10s); !deadline.passed();)
            if (receiving.step()) break;
    });
    EXPECT_EQ(error.code(), Errc::peer_lost) << error.what();
}

// Objects of many kinds.
struct Museum {
    using Text = std::pmr::string;
    explicit Museum(std::pmr::memory_resource* r)
        : texts(r), list(r), map(r), table(r), numbers(r), flags(r), nodes(r) {}
    struct Node {
        Node* next = nullptr;
        const Text* text = nullptr;
    };
    std::pmr::vector<Text> texts;
    std::pmr::list<Text> list;
    std::pmr::map<int, Text> map;
    std::pmr::unordered_map<int, int> table;
    std::pmr::vector<std::uint32_t> numbers;  // large
    std::pmr::vector<bool> flags;
    std::pmr::vector<Node> nodes;  // large, in excerpts
    std::shared_ptr<Node> shared, again;
    std::weak_ptr<Node> weak;
    std::string_view view;
    Museum* self = nullptr;
};
VERBATIM_DESCRIBE(Museum, texts, list, map, table, numbers, flags, nodes, shared, again, weak, view,
                  self)

// Memory in pages of its own.
struct Page {
    explicit Page(std::size_t bytes)
        : size(bytes),
          memory(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)),
          resource(memory, bytes, std::pmr::null_memory_resource()) {}
    Page(const Page&) = delete;
    Page& operator=(const Page&) = delete;
    ~Page() { munmap(memory, size); }
    void make_read_only() const { ASSERT_EQ(mprotect(memory, size, PROT_READ), 0); }

    std::size_t size;
    void* memory;
    std::pmr::monotonic_buffer_resource resource;
};

Museum* make_museum(std::pmr::memory_resource* resource) {
    auto* const all = new (resource->allocate(sizeof(Museum), alignof(Museum))) Museum(resource);
    constexpr int kMany = 30'000;
    for (int i = 0; i < 1000; ++i) {
        all->texts.emplace_back(static_cast<std::size_t>(i % 40), 'x');
        all->list.emplace_back(static_cast<std::size_t>(i % 30), 'y');
        all->map.try_emplace(i, "a text that is too long to lie in its string");
        all->table[i] = -i;
        all->flags.push_back(i % 3 == 0);
    }
    all->texts[39].resize(2);  // its memory stays outside
    all->numbers.resize(5 * kMany, 9);
    all->nodes.resize(kMany);
    for (std::size_t i = 0; i < kMany; ++i)
        all->nodes[i] = {&all->nodes[i * 7 % kMany], &all->texts[i % 1000]};
    all->shared =
        std::allocate_shared<Museum::Node>(std::pmr::polymorphic_allocator<Museum::Node>(resource));
    all->weak = all->again = all->shared;
    all->view = all->texts[38];
    all->self = all;
    return all;
}
// Of all that is there, by reads alone.
std::uint64_t sum_of(const Museum& all) {
    std::uint64_t sum = all.view.size() + (all.self == &all) + (all.shared == all.again) +
                        (all.shared->next == nullptr);
    const auto add = [&sum](std::uint64_t value) { sum = sum * 31 + value; };
    for (const auto& text : all.texts) add(text.size() + (text.empty() ? 0 : text.back() == 'x'));
    for (const auto& text : all.list) add(text.size());
    for (const auto& [key, text] : all.map) add(text.size() + static_cast<std::uint64_t>(key));
    for (int i = 0; i < 1000; ++i) add(static_cast<std::uint64_t>(-all.table.at(i)));
    for (const std::uint32_t number : all.numbers) add(number);
    for (const bool flag : all.flags) add(flag);
    for (const Museum::Node& node : all.nodes)
        add(static_cast<std::uint64_t>(node.next - all.nodes.data()) + node.text->size());
    return sum;
}

TEST(Transfer, a_graph_is_read_by_other_threads_while_it_is_sent_and_never_stored_into) {
    Page page(std::size_t{8} << 20);
    const Museum* const all = make_museum(&page.resource);
    page.make_read_only();  // a store is a fault from here on
    const std::uint64_t sum = sum_of(*all);
    Pair pair;
    std::atomic<bool> is_over{false};
    std::thread reader([&] {
        do EXPECT_EQ(sum_of(*all), sum);
        while (!is_over);
    });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sum_of(*pair.transfer(*all)), sum);
    is_over = true;
    reader.join();
}

}  // namespace
}  // namespace verbatim
