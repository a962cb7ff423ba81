// The files of configs/: contexts that are made from them connect and exchange messages and
// objects. VERBATIM_DEVICE_SOFTNIC_PORT chooses the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory_resource>
#include <numeric>
#include <thread>
#include <vector>

#include "objects_pair.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(60s); }

Config example(const std::string& name) {
    return Config::from_file(VERBATIM_SOURCE_ROOT "/configs/" + name + ".toml");
}

std::vector<std::byte> pattern(std::size_t bytes) {
    std::vector<std::byte> all(bytes);
    for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
    return all;
}

// Sends each message back, as many as come, until the peer closes or says nothing for long.
void send_back(Connection& connection, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const Message message = connection.receive_message(soon());
        const std::vector<std::byte> copy(message.payload().begin(), message.payload().end());
        connection.send_message(2, copy, {}, soon());
    }
}

class ConfigExample : public testing::TestWithParam<const char*> {};

TEST_P(ConfigExample, connects_and_carries_messages_of_all_lengths) {
    const Config config = example(GetParam());
    test::Pair pair(config, config);
    const std::size_t longest = std::min(config.ring.longest_message, std::size_t{8} << 20);
    const std::size_t lengths[] = {0, 8, config.ring.bytes / 4, longest};
    std::thread peer([&] { send_back(*pair.receiver, std::size(lengths)); });
    for (const std::size_t bytes : lengths) {
        const std::vector<std::byte> sent = pattern(bytes);
        pair.sender->send_message(1, sent, {}, soon());
        const Message answer = pair.sender->receive_message(soon());
        EXPECT_EQ(answer.channel(), 2);
        EXPECT_TRUE(std::ranges::equal(answer.payload(), sent)) << bytes;
    }
    peer.join();
}

struct Series {
    std::pmr::vector<double> values;
    Series* next = nullptr;
};

TEST_P(ConfigExample, carries_object_graphs) {
    const Config config = example(GetParam());
    test::Pair pair(config, config);
    Arena& arena = pair.sender_context.arena();
    Series first{std::pmr::vector<double>(10000, &arena)},
        second{std::pmr::vector<double>(3, &arena)};
    std::iota(first.values.begin(), first.values.end(), 0.5);
    first.next = &second;
    second.next = &first;
    const Received<Series> received = pair.transfer(first);
    EXPECT_EQ(received->values.size(), 10000u);
    EXPECT_EQ(received->values[9999], 9999.5);
    EXPECT_EQ(received->next->values.size(), 3u);
    EXPECT_EQ(received->next->next, &*received);
}

INSTANTIATE_TEST_SUITE_P(Files, ConfigExample,
                         testing::Values("laptop", "latency", "throughput", "many-connections",
                                         "server"),
                         [](const auto& file) {
                             std::string name = file.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

TEST(ConfigExamples, many_connections_share_a_lane) {
    constexpr std::size_t kCount = 100;
    const Config config = example("many-connections");
    ASSERT_GT(kCount, config.lane.hot);
    Context calling(config), serving(config);
    Listener listener = serving.listen("127.0.0.1:0");
    std::vector<Connection> called, accepted;
    for (std::size_t i = 0; i < kCount; ++i) {  // one by one: so both ends have one index
        std::thread accepting([&] { accepted.push_back(listener.accept(soon())); });
        called.push_back(calling.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }
    for (std::size_t i = 0; i < kCount; ++i)
        called[i].send_message(1, std::as_bytes(std::span(&i, 1)), {}, soon());
    for (std::size_t i = kCount; i-- > 0;) {
        const Message message = accepted[i].receive_message(soon());
        EXPECT_TRUE(std::ranges::equal(message.payload(), std::as_bytes(std::span(&i, 1)))) << i;
    }
}

TEST(ConfigExamples, the_server_serves_on_its_pollers) {
    Context server(example("server")), client(example("laptop"));
    ASSERT_EQ(server.pollers().size(), 2u);
    EXPECT_EQ(&server.poller("clients-1"), server.pollers()[1].get());
    auto* const reply = server.arena("replies").make<std::uint64_t>(42u);
    Listener listener = server.listen("127.0.0.1:0");
    std::promise<std::thread::id> threads[2];
    std::size_t served = 0;
    listener.serve(server.pollers(), [&](Connection& one) {
        threads[served++].set_value(std::this_thread::get_id());  // the listener's calls, in turn
        one.on(1, [reply](Connection& from, Message&) {
            EXPECT_EQ(from.try_send(2, std::as_bytes(std::span(reply, 1))), Errc::ok);
        });
    });
    std::vector<Connection> connections;
    for (int i = 0; i < 2; ++i) {
        connections.push_back(client.connect("127.0.0.1:" + std::to_string(listener.port())));
        connections.back().send_message(1, {}, {}, soon());
        const Message answer = connections.back().receive_message(soon());
        EXPECT_TRUE(std::ranges::equal(answer.payload(), std::as_bytes(std::span(reply, 1))));
    }
    EXPECT_NE(threads[0].get_future().get(), threads[1].get_future().get());
}

}  // namespace
}  // namespace verbatim
