// Random graphs of all kinds of fields between two processes: eager and streamed, several at a
// time, on several channels, and to a receiver that trusts no byte. VERBATIM_LONG sends a million.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <vector>

#include "core_fault.hpp"
#include "kinds_maker.hpp"
#include "kinds_twins.hpp"
#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim::kinds {
namespace {

using softnic::test::Child;
using softnic::test::Wire;
using namespace std::chrono_literals;

constexpr std::uint64_t kAtOnce = 3;  // graphs of a batch, each on a channel of its own
constexpr std::size_t kEagerBytes = std::size_t{8} << 10;

std::uint64_t batches() {
    if (std::getenv("VERBATIM_LONG") != nullptr) return 1'000'000 / kAtOnce + 1;
    return test::kSanitized ? 300 : 3'000;
}
Deadline soon() { return Deadline::after(60s); }

Config config_of(bool hostile) {
    Config config = test::small_config();
    config.objects.eager_bytes = kEagerBytes;
    config.objects.hostile = hostile;
    config.objects.timeout = 60s;
    return config;
}

// What both processes make of the number of a graph.
enum class Kind { network, household, branch };
Kind kind_of(std::uint64_t seed) {
    return seed % 7 == 3 ? Kind::household : seed % 5 == 2 ? Kind::branch : Kind::network;
}
bool is_acyclic(std::uint64_t seed) { return kind_of(seed) == Kind::branch && seed % 2 == 0; }
bool is_for_hostile(std::uint64_t batch) { return batch % 4 == 1; }
std::uint64_t seed_of(std::uint64_t batch, std::uint64_t index) { return batch * kAtOnce + index; }

template <class Maker>
std::function<bool()> sending(Connection& connection, std::uint64_t seed, std::uint16_t channel) {
    using Root = std::remove_cvref_t<decltype(std::declval<Maker>().root())>;
    struct Sending {
        Sending(Connection& to, std::uint64_t number, SendOptions options)
            : maker(number, to.arena()), operation(to, maker.root(), options) {}
        Maker maker;
        SendOperation<Root> operation;
        bool is_done = false;
    };
    const SendOptions options{.channel = channel, .acyclic = is_acyclic(seed)};
    return [one = std::make_shared<Sending>(connection, seed, options)] {
        return one->is_done = one->is_done || one->operation.step();
    };
}

std::function<bool()> sending(Connection& connection, std::uint64_t seed, std::uint16_t channel,
                              Kind kind) {
    switch (kind) {
        case Kind::household:
            return sending<HouseholdMaker>(connection, seed, channel);
        case Kind::branch:
            return sending<BranchMaker>(connection, seed, channel);
        default:
            return sending<NetworkMaker>(connection, seed, channel);
    }
}

void send_batch(Connection& connection, std::uint64_t batch) {
    std::vector<std::function<bool()>> all;
    for (std::uint64_t i = 0; i < kAtOnce; ++i)
        all.push_back(sending(connection, seed_of(batch, i), static_cast<std::uint16_t>(i),
                              kind_of(seed_of(batch, i))));
    const Deadline deadline = soon();
    for (unsigned round = 0; !all.empty(); ++round) {
        if (deadline.passed()) throw Error(Errc::timeout, "test", "a batch does not leave");
        if (std::erase_if(all, [](auto& step) { return step(); }) == 0 && !all.empty())
            connection.pause(round, deadline);
        else
            round = 0;
    }
}

int send_all(Wire& wire) {
    std::uint16_t ports[2];
    if (!wire.get(ports)) return 1;
    Context context(config_of(false));
    Connection trusting = context.connect(test::local(ports[0]));
    Connection hostile = context.connect(test::local(ports[1]));
    for (std::uint64_t batch = 0; batch < batches(); ++batch)
        send_batch(is_for_hostile(batch) ? hostile : trusting, batch);
    char end = 0;
    wire.get(end);  // it ends when all has been received
    return 0;
}

struct Counts {
    std::uint64_t graphs = 0, streamed = 0, hostile = 0;
};

template <class Maker>
bool receive_one(Connection& connection, std::uint64_t seed, std::uint16_t channel,
                 Counts& counts) {
    using Root = std::remove_cvref_t<decltype(std::declval<Maker>().root())>;
    const auto graph = receive<Root>(connection, {soon(), channel});
    const Maker maker(seed, *std::pmr::new_delete_resource());
    ++counts.graphs;
    counts.streamed += graph.report().object_bytes > kEagerBytes;
    return Twins::are(maker.root(), *graph);
}

bool receive_one(Connection& connection, std::uint64_t batch, std::uint64_t index, Counts& counts) {
    const std::uint64_t seed = seed_of(batch, index);
    const auto channel = static_cast<std::uint16_t>(index);
    switch (kind_of(seed)) {
        case Kind::household:
            return receive_one<HouseholdMaker>(connection, seed, channel, counts);
        case Kind::branch:
            return receive_one<BranchMaker>(connection, seed, channel, counts);
        default:
            return receive_one<NetworkMaker>(connection, seed, channel, counts);
    }
}

// The comparison can fail: at values, at places of references, at containers' contents.
TEST(Twins, are_of_the_same_seed_and_differ_by_any_reference) {
    std::pmr::memory_resource& heap = *std::pmr::new_delete_resource();
    int moved = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        const NetworkMaker one(seed, heap), other(seed + 1, heap, 0), same(seed, heap, 0);
        ASSERT_TRUE(Twins::are(one.root(), same.root())) << seed;
        ASSERT_FALSE(Twins::are(one.root(), other.root())) << seed;
        auto& changed = const_cast<Network&>(same.root());
        if (changed.vertices.size() < 2) continue;
        Links& links = changed.vertices[0].links;
        links.next = links.next == &changed.vertices[1] ? nullptr : &changed.vertices[1];
        ASSERT_FALSE(Twins::are(one.root(), same.root())) << seed;
        ++moved;
    }
    EXPECT_GT(moved, 50);
}

TEST(RandomGraphs, of_all_kinds_of_fields_arrive_in_another_process_equal_in_meaning) {
    Child child(send_all);
    Context trusting_context(config_of(false)), hostile_context(config_of(true));
    Listener trusting = trusting_context.listen("127.0.0.1:0"),
             hostile = hostile_context.listen("127.0.0.1:0");
    const std::uint16_t ports[2] = {trusting.port(), hostile.port()};
    ASSERT_TRUE(child.wire().put(ports));
    Connection from_trusted = trusting.accept(soon()), from_hostile = hostile.accept(soon());
    Counts counts;
    for (std::uint64_t batch = 0; batch < batches(); ++batch) {
        Connection& connection = is_for_hostile(batch) ? from_hostile : from_trusted;
        for (std::uint64_t i = 0; i < kAtOnce; ++i)
            ASSERT_TRUE(receive_one(connection, batch, (i + batch) % kAtOnce, counts))
                << "batch " << batch << ", graph " << (i + batch) % kAtOnce;
        counts.hostile += is_for_hostile(batch) ? kAtOnce : 0;
    }
    RecordProperty("graphs", static_cast<int>(counts.graphs));
    EXPECT_GT(counts.streamed, counts.graphs / 10);
    EXPECT_GT(counts.graphs - counts.streamed, counts.graphs / 10);
    EXPECT_GT(counts.hostile, counts.graphs / 5);
    child.wire().signal();
    EXPECT_EQ(child.reap(), 0);
}

}  // namespace
}  // namespace verbatim::kinds
