// The layers above the driver, on each of its backends: messages, one-sided writes and an object
// graph over real connections. Nothing above drivers/ asks which it got.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory_resource>
#include <random>
#include <string>

#include <verbatim/uverbs/uverbs.hpp>

#include <objects_pair.hpp>

namespace verbatim {
namespace {

using test::small_config;

struct Node {
    std::pmr::string name;
    std::pmr::vector<Node*> next;
};

class Connections : public testing::TestWithParam<const char*> {
  protected:
    static Config config() {
        Config config = small_config();
        if (std::string(GetParam()) == "softnic") return config;
        for (const char* const port : {"tcp", "udp"})
            if (std::string(GetParam()) == std::string("softnic_") + port) {
                config.softnic.port = port;
                return config;
            }
        EXPECT_NE(uverbs::sysfs_root(), nullptr);
        setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
        config.device.kind = "rdma";
        config.device.data_path = GetParam();
        return config;
    }
    test::Pair pair{config(), config()};
};

Deadline soon() { return Deadline::after(std::chrono::seconds(30)); }

TEST_P(Connections, take_the_device_that_the_configuration_names) {
    const DeviceInfo& info = pair.sender_context.device().info();
    EXPECT_EQ(info.data_path, std::string(GetParam()) == "verbs" ? "verbs" : "mlx5");
    EXPECT_EQ(info.name == "mlx5_0", !std::string(GetParam()).starts_with("softnic"));
}

TEST_P(Connections, carry_messages_in_both_directions) {
    std::mt19937 random(7);
    const std::size_t longest = pair.sender->max_message_bytes();
    for (int i = 0; i < 400; ++i) {
        Connection& from = i % 3 == 0 ? *pair.receiver : *pair.sender;
        Connection& to = i % 3 == 0 ? *pair.sender : *pair.receiver;
        std::string text(i % 100 == 0 ? longest : random() % 2000, '\0');
        for (char& c : text) c = static_cast<char>(random());
        from.send_message(static_cast<std::uint8_t>(i % 8), std::as_bytes(std::span(text)), {},
                          soon());
        const Message got = to.receive_message(soon());
        ASSERT_EQ(got.channel(), i % 8);
        ASSERT_TRUE(std::ranges::equal(got.payload(), std::as_bytes(std::span(text)))) << i;
    }
}

TEST_P(Connections, full_rings_are_a_status_and_lose_nothing) {
    const std::string text(1000, 'b');
    int accepted = 0;
    for (const Deadline deadline = soon(); !deadline.passed();) {
        const Errc code = pair.sender->try_send(1, std::as_bytes(std::span(text)));
        if (code == Errc::would_block) break;
        ASSERT_EQ(code, Errc::ok);
        ++accepted;
    }
    const auto blocks = static_cast<int>(Config{}.ring.send_blocks);
    EXPECT_GT(accepted, blocks / 2 - 2) << "as many as the send queue takes, where nobody polls";
    for (int i = 0; i < accepted; ++i) {
        ASSERT_EQ(pair.receiver->receive_message(soon()).payload().size(), text.size());
    }
}

TEST_P(Connections, carry_object_graphs) {
    Arena& arena = pair.sender_context.arena();
    std::vector<Node*> nodes;
    for (int i = 0; i < 5000; ++i)
        nodes.push_back(arena.make<Node>(
            std::pmr::string("node number " + std::to_string(i) + ", kept apart", &arena),
            std::pmr::vector<Node*>(&arena)));
    std::mt19937 random(11);
    for (Node* node : nodes)
        for (int k = 0; k < 3; ++k) node->next.push_back(nodes[random() % nodes.size()]);
    for (std::size_t i = 1; i < nodes.size(); ++i) nodes[i - 1]->next.push_back(nodes[i]);
    const auto graph = pair.transfer(*nodes[0]);
    const Node* got = graph.get();
    for (std::size_t i = 0;; ++i) {
        ASSERT_EQ(got->name, nodes[i]->name);
        ASSERT_EQ(got->next.size(), nodes[i]->next.size());
        for (std::size_t k = 0; k < got->next.size(); ++k)
            ASSERT_EQ(got->next[k]->name, nodes[i]->next[k]->name);
        if (i + 1 == nodes.size()) break;
        got = got->next.back();
    }
    EXPECT_EQ(got->next.size(), 3u);
}

TEST_P(Connections, end_with_the_reason) {
    auto* source = static_cast<std::byte*>(pair.sender->arena().allocate(64, 64));
    std::size_t written = 0;
    ASSERT_EQ(pair.sender->try_write(source, 64, 4096, 0xbad00, written), Errc::ok);
    Errc code = Errc::would_block;
    for (const Deadline deadline = soon(); code == Errc::would_block && !deadline.passed();)
        code = pair.sender->try_flush();
    EXPECT_EQ(code, Errc::remote_access);
    EXPECT_EQ(pair.sender->try_send(1, {}), Errc::remote_access);
}

TEST(Faults, of_a_configuration_are_refused_where_the_device_makes_none) {
    Config config = small_config();
    ASSERT_NE(uverbs::sysfs_root(), nullptr);
    setenv("MLX5_DEBUG_FILE", "/dev/null", 1);
    config.device.kind = "rdma";
    config.faults = "drop nth=1";
    try {
        const Context context(config);
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), Errc::config_error) << error.what();
        EXPECT_NE(std::string(error.what()).find("kind = \"softnic\""), std::string::npos);
    }
}

// Messages are found by polling memory.
TEST(Order, a_device_that_does_not_promise_it_is_refused_unless_it_is_assumed) {
    ASSERT_NE(uverbs::sysfs_root(), nullptr);
    uverbs::set_new_device_traits({.data_in_order = false});
    Config config = small_config();
    config.device.kind = "rdma";
    {
        Context one(config), other(config);
        Listener listener = other.listen("127.0.0.1:0");
        std::atomic<bool> refused{false};
        // A listener turns the caller down and goes on listening.
        std::thread accepting([&] {
            while (!refused) {
                try {
                    listener.accept(Deadline::after(std::chrono::milliseconds(100)));
                    ADD_FAILURE() << "accepted";
                } catch (const Error& error) {
                    EXPECT_EQ(error.code(), Errc::timeout) << error.what();
                }
            }
        });
        try {
            one.connect("127.0.0.1:" + std::to_string(listener.port()));
            ADD_FAILURE() << "connected";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::unsupported) << error.what();
            EXPECT_NE(std::string(error.what()).find("in order"), std::string::npos);
        }
        refused = true;
        accepting.join();
    }
    config.device.assume_in_order = true;
    test::Pair pair(config, config);
    EXPECT_EQ(pair.sender->try_send(1, {}), Errc::ok);
    uverbs::set_new_device_traits({});
}

INSTANTIATE_TEST_SUITE_P(Backends, Connections,
                         testing::Values("softnic", "softnic_tcp", "softnic_udp", "mlx5", "verbs"),
                         [](const auto& which) { return std::string(which.param); });

}  // namespace
}  // namespace verbatim
