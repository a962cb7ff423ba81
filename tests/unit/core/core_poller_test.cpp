// Pollers: dedicated threads from the configuration, work that other threads hand them, servers on
// them, lanes that pass between them.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "pair/connected_pair.hpp"
#include "poller/placement.hpp"
#include "sanitized.hpp"
#include "softnic_process.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(60s); }

Config poller_config(std::size_t count, LaneMode mode = LaneMode::adaptive) {
    Config config = test::small_config();
    config.ring.bytes = 4096;
    for (std::size_t i = 0; i < count; ++i) config.pollers.push_back({.mode = mode});
    return config;
}

std::uint64_t number_of(const Message& message) {
    std::uint64_t number = 0;
    if (message.payload().size() == sizeof number)
        std::memcpy(&number, message.payload().data(), sizeof number);
    return number;
}
std::span<const std::byte> bytes_of(const std::uint64_t& number) {
    return std::as_bytes(std::span(&number, 1));
}

template <class Condition>
bool wait_until(Condition condition) {
    const Deadline deadline = soon();
    while (!condition() && !deadline.passed()) std::this_thread::yield();
    return condition();
}

std::string address_of(const Listener& listener) {
    return "127.0.0.1:" + std::to_string(listener.port());
}

// A server that answers each message of channel 1 on channel 2, on its pollers.
void echo(Connection& connection) {
    connection.on(1, [](Connection& caller, Message& message) {
        EXPECT_EQ(caller.try_send(2, message.payload()), Errc::ok);
    });
}

TEST(Poller, runs_tasks_of_other_threads_in_order_and_returns_their_values) {
    Context context(poller_config(1));
    Lane lane = context.pollers().front()->lane();
    std::vector<int> seen;
    for (int i = 0; i < 1000; ++i) lane.submit([&seen, i]() noexcept { seen.push_back(i); });
    EXPECT_EQ(lane.call([&] { return seen.size(); }), 1000u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
    EXPECT_NE(lane.call([] { return std::this_thread::get_id(); }), std::this_thread::get_id());
    EXPECT_EQ(test::error_code_of([&] {
                  lane.call([] { throw Error(Errc::bad_pointer, "test", "thrown in the task"); });
              }),
              Errc::bad_pointer);
    EXPECT_EQ(lane.call([&] { return lane.call([] { return 7; }); }), 7) << "a call of its own";
}

TEST(Poller, sleeps_and_is_woken_by_tasks) {
    Context context(poller_config(1, LaneMode::event));
    Lane lane = context.pollers().front()->lane();
    for (int i = 0; i < 300; ++i) {
        if (i % 3 == 0) std::this_thread::sleep_for(100us);
        ASSERT_EQ(lane.call([i] { return i; }), i);
    }
}

TEST(Poller, that_has_ended_takes_no_calls) {
    auto context = std::make_unique<Context>(poller_config(1));
    Lane lane = context->pollers().front()->lane();
    EXPECT_EQ(lane.call([] { return 7; }), 7);
    context.reset();
    EXPECT_EQ(test::error_code_of([&] { lane.call([] {}); }), Errc::invalid_argument);
}

TEST(Poller, is_found_by_its_name) {
    Config config = poller_config(2);
    config.pollers[1].name = "second";
    Context context(config);
    EXPECT_EQ(&context.poller("second"), context.pollers()[1].get());
    EXPECT_EQ(context.pollers()[0]->name(), "poller 0");
    EXPECT_EQ(test::error_code_of([&] { context.poller("third"); }), Errc::invalid_argument);
}

TEST(Poller, of_another_context_is_refused) {
    Context mine(poller_config(1)), other(poller_config(1));
    Listener listener = mine.listen("127.0.0.1:0");
    const auto nothing = [](Connection&) {};
    EXPECT_EQ(test::error_code_of(
                  [&] { mine.connect(address_of(listener), *other.pollers().front(), nothing); }),
              Errc::invalid_argument);
    EXPECT_EQ(test::error_code_of([&] { listener.serve(other.pollers(), nothing); }),
              Errc::invalid_argument);
    listener.serve(mine.pollers(), nothing);  // a refusal changes nothing
    const Connection caller = other.connect(address_of(listener));
    EXPECT_EQ(caller.state(), Errc::ok);
}

TEST(Poller, refuses_connections_that_its_own_handlers_ask_for) {
    Context server(poller_config(1)), client(poller_config(0));
    Listener listener = server.listen("127.0.0.1:0");
    std::atomic<Errc> code{Errc::ok};
    listener.serve(server.pollers(), [&](Connection& connection) {
        connection.on(1, [&](Message&) {
            code.store(test::error_code_of([&] {
                server.connect(address_of(listener), *server.pollers().front(), [](Connection&) {});
            }));
        });
    });
    Connection caller = client.connect(address_of(listener));
    caller.send_message(1, {}, {}, soon());
    EXPECT_TRUE(wait_until([&] { return code == Errc::would_deadlock; })) << name(code);
}

TEST(Poller, runs_where_its_section_says) {
    cpu_set_t mine;
    ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
    int core = 0;
    while (!CPU_ISSET(static_cast<unsigned>(core), &mine)) ++core;
    Config config = poller_config(1);
    config.pollers[0].core = core;
    Context context(config);
    Lane lane = context.pollers().front()->lane();
    EXPECT_EQ(lane.call([] { return sched_getcpu(); }), core);
    config.pollers[0].core = 4095;
    EXPECT_EQ(test::error_code_of([&] { Context elsewhere(config); }), Errc::config_error);
    config.pollers[0] = {.numa_node = 1000};
    EXPECT_EQ(test::error_code_of([&] { Context elsewhere(config); }), Errc::config_error);
}

// The cores of a poller with this node.
placement::Cores cores_on(int node) {
    Config config = poller_config(1);
    config.pollers[0].numa_node = node;
    const Context context(config);
    return context.pollers().front()->lane().call([] {
        placement::Cores cores;
        (void)sched_getaffinity(0, sizeof cores, &cores);
        return cores;
    });
}

// This process sees nodes with these cores from now on. False: it may not do that.
bool pretend_nodes(const std::vector<std::string>& cores) {
    const std::string folder = "/sys/devices/system/node";
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("nodes", folder.c_str(), "tmpfs", 0, nullptr) != 0)
        return false;
    for (std::size_t i = 0; i < cores.size(); ++i) {
        const std::string node = folder + "/node" + std::to_string(i);
        std::filesystem::create_directory(node);
        std::ofstream(node + "/cpulist") << cores[i] << "\n";
    }
    return true;
}

TEST(Poller, runs_on_the_cores_of_the_node_of_its_section) {
    constexpr int kMayNot = 77;
    if (test::kSanitized) GTEST_SKIP() << "forks, which the thread sanitizer does not like";
    const int status = softnic::test::status_in_child([] {
        cpu_set_t mine;
        std::vector<unsigned> cores;
        if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 1;
        for (unsigned core = 0; core < CPU_SETSIZE; ++core)
            if (CPU_ISSET(core, &mine)) cores.push_back(core);
        if (cores.size() < 2) return kMayNot;
        const std::vector<unsigned> of_nodes{cores.back(), cores.front()};
        if (!pretend_nodes({std::to_string(of_nodes[0]), std::to_string(of_nodes[1])}))
            return kMayNot;
        for (const int node : {0, 1}) {
            const placement::Cores found = cores_on(node);
            if (CPU_COUNT(&found) != 1 || !CPU_ISSET(of_nodes[static_cast<unsigned>(node)], &found))
                return 2;
        }
        return 0;
    });
    if (status == kMayNot) GTEST_SKIP() << "needs two cores, and the right to mount";
    EXPECT_EQ(status, 0);
}

TEST(Poller, runs_on_the_machines_first_node) {
    std::ifstream file("/sys/devices/system/node/node0/cpulist");
    std::string list;
    if (!std::getline(file, list)) GTEST_SKIP() << "this kernel tells of no nodes";
    placement::Cores own, node = placement::parse_list(list, "test");
    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    CPU_AND(&node, &node, &own);
    if (CPU_COUNT(&node) == 0) GTEST_SKIP() << "this process may not run there";
    const placement::Cores found = cores_on(0);
    EXPECT_TRUE(CPU_EQUAL(&found, &node));
}

TEST(Placement, reads_the_kernels_lists_of_cores) {
    const auto cores = placement::parse_list("0-2,5,7-7", "test");
    EXPECT_EQ(CPU_COUNT(&cores), 5);
    for (const unsigned core : {0u, 1u, 2u, 5u, 7u}) EXPECT_TRUE(CPU_ISSET(core, &cores));
    for (const char* wrong : {"", "a", "3-1", "1,", "99999"})
        EXPECT_EQ(test::error_code_of([&] { placement::parse_list(wrong, "test"); }),
                  Errc::config_error)
            << wrong;
}

class Serving : public testing::TestWithParam<LaneMode> {};

TEST_P(Serving, pollers_answer_many_callers_in_turn) {
    Context server(poller_config(2, GetParam())), client(poller_config(0));
    Listener listener = server.listen("127.0.0.1:0");
    std::mutex mutex;
    std::set<std::thread::id> threads;
    std::atomic<int> ended{0};
    listener.serve(server.pollers(), [&](Connection& connection) {
        echo(connection);
        connection.on_end([&] { ++ended; });
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
    });
    constexpr int kCallers = 6;
    {
        std::vector<Connection> callers;
        for (int i = 0; i < kCallers; ++i) callers.push_back(client.connect(address_of(listener)));
        for (std::uint64_t i = 0; i < 600; ++i) {
            Connection& caller = callers[i % kCallers];
            caller.send_message(1, bytes_of(i), {}, soon());
            ASSERT_EQ(number_of(caller.receive_message(soon())), i);
        }
    }
    EXPECT_TRUE(wait_until([&] { return ended == kCallers; })) << ended;
    const std::lock_guard lock(mutex);
    EXPECT_EQ(threads.size(), 2u);
    EXPECT_EQ(threads.count(std::this_thread::get_id()), 0u);
}

TEST_P(Serving, many_threads_send_by_one_sender) {
    Context server(poller_config(1, GetParam())), client(poller_config(1, GetParam()));
    Listener listener = server.listen("127.0.0.1:0");
    constexpr std::uint64_t kThreads = 3, kMessages = 3000;
    std::vector<std::uint64_t> next(kThreads);
    std::atomic<std::uint64_t> received{0}, wrong{0};
    listener.serve(server.pollers(), [&](Connection& connection) {
        connection.on(1, [&](Message& message) {
            const std::uint64_t number = number_of(message);
            if (next[message.kind()]++ != number) ++wrong;
            ++received;
        });
    });
    std::optional<Sender> sender;
    client.connect(address_of(listener), *client.pollers().front(),
                   [&](Connection& connection) { sender.emplace(connection.sender()); });
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t)
        threads.emplace_back([&, t] {
            for (std::uint64_t i = 0; i < kMessages;) {
                const Errc code =
                    sender->try_send(1, bytes_of(i), {}, static_cast<std::uint8_t>(t));
                ASSERT_TRUE(code == Errc::ok || code == Errc::would_block) << name(code);
                if (code == Errc::ok)
                    ++i;
                else
                    std::this_thread::yield();
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(wait_until([&] { return received == kThreads * kMessages; })) << received;
    EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(OfModes, Serving, testing::Values(LaneMode::adaptive, LaneMode::event));

TEST(Senders, are_refused_what_is_too_long_and_after_the_end) {
    test::ConnectedPair pair;
    Sender sender = pair.sender->sender();
    const std::vector<std::byte> longer(sender.max_message_bytes() + 1);
    EXPECT_EQ(sender.try_send(1, longer), Errc::message_too_large);
    EXPECT_EQ(sender.try_send(1, {}, {}, 16), Errc::invalid_argument);
    EXPECT_EQ(sender.try_send(1, {}), Errc::ok);
    pair.sender_context.lane().poll();
    EXPECT_EQ(pair.receiver->receive_message(soon()).channel(), 1);
    pair.sender.reset();
    EXPECT_EQ(sender.try_send(1, {}), Errc::peer_lost);
}

TEST(Senders, tell_that_their_queue_is_full_and_lose_nothing) {
    test::ConnectedPair pair;
    Sender sender = pair.sender->sender();
    std::uint64_t accepted = 0;
    while (sender.try_send(1, bytes_of(accepted)) == Errc::ok) ASSERT_LT(++accepted, 100000u);
    EXPECT_GE(accepted, 200u);
    for (std::uint64_t i = 0; i < accepted; ++i) {
        pair.sender_context.lane().poll();
        ASSERT_EQ(number_of(pair.receiver->receive_message(soon())), i);
    }
}

TEST(Lanes, pass_between_pollers_without_losing_a_message) {
    Context server(poller_config(2)), client(poller_config(0));
    Listener listener = server.listen("127.0.0.1:0");
    Lane lane = server.make_lane();
    std::optional<Connection> served;
    std::thread accepting([&] { served.emplace(listener.accept(lane, soon())); });
    Connection caller = client.connect(address_of(listener));
    accepting.join();
    echo(*served);
    std::atomic<bool> done{false};
    std::thread moving([&] {
        for (std::size_t i = 0; !done; ++i) {
            Poller& poller = *server.pollers()[i % 2];
            poller.adopt(lane);
            std::this_thread::sleep_for(200us);
            poller.release(lane);
        }
    });
    for (std::uint64_t i = 0; i < 2000; ++i) {
        caller.send_message(1, bytes_of(i), {}, soon());
        ASSERT_EQ(number_of(caller.receive_message(soon())), i);
    }
    done = true;
    moving.join();
    EXPECT_EQ(test::error_code_of([&] { server.pollers()[0]->release(lane); }),
              Errc::invalid_argument);
    server.pollers()[0]->adopt(lane);
    EXPECT_EQ(test::error_code_of([&] { server.pollers()[1]->adopt(lane); }),
              Errc::invalid_argument);
    server.pollers()[0]->release(lane);
}

}  // namespace
}  // namespace verbatim
