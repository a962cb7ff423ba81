// Windows that nobody uses, and small graphs that find no room in the receiver's memory.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <verbatim/core/telemetry.hpp>

#include "objects_hand_made.hpp"
#include "windows/objects_windows.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::HandMadeSender;
using test::in_time;
using test::kMany;
using test::Numbers;
using test::Pair;
using test::small_config;
namespace wire = objects::wire;

// Small graphs of a sender that has windows which it does not use, kept by the receiver.
struct Keeping {
    static constexpr std::size_t kGraphs = 800;  // of 8 MB of memory, windows have 4
    static Config config() {
        Config config = small_config();
        config.receive_arena.max_bytes = std::size_t{8} << 20;
        return config;
    }
    void take() {
        while (auto one = try_receive<std::string>(*pair.receiver)) kept.push_back(std::move(*one));
    }
    // All of the receiver's memory, but for what is lent.
    void fill() {
        Arena& arena = pair.receiver->receive_arena();
        for (std::size_t bytes = std::size_t{1} << 20; bytes >= 4096; bytes /= 2) try {
                for (;;) (void)arena.allocate(bytes, 64);
            } catch (const Error&) {
                continue;
            }
    }
    // Polls both sides until it is there.
    template <class T>
    void await(Receiving<T>& received) {
        for (const Deadline deadline = in_time(); !received.test();) {
            ASSERT_FALSE(deadline.passed());
            (void)pair.sender_context.lane().poll();
            (void)pair.receiver_context.lane().poll();
        }
        EXPECT_EQ(received.error(), nullptr);
    }

    Pair pair{small_config(), config()};
    const std::string text = std::string(8'000, 'x');
    std::vector<Received<std::string>> kept;
};

TEST(Windows, that_nobody_uses_go_back_for_small_graphs_that_find_no_room) {
    Keeping one;
    for (int round = 0; round < 3; ++round) {
        (void)one.pair.transfer(Numbers(kMany, 1));
        std::jthread receiving([&]() noexcept {
            try {
                for (std::size_t i = 0; i < Keeping::kGraphs; ++i)
                    one.kept.push_back(receive<std::string>(*one.pair.receiver, {in_time()}));
            } catch (const Error& error) {
                ADD_FAILURE() << error.what();
            }
        });
        for (std::size_t i = 0; i < Keeping::kGraphs; ++i)
            ASSERT_NO_THROW(send(*one.pair.sender, one.text, {in_time()})) << i;
        receiving.join();
        ASSERT_EQ(one.kept.size(), Keeping::kGraphs);
        for (const auto& kept : one.kept) ASSERT_EQ(*kept, one.text);
        one.kept.clear();
    }
}

// What gives them back is behind all that the sender has said.
TEST(Windows, come_back_for_a_flood_of_small_graphs) {
    Keeping one;
    (void)one.pair.transfer(Numbers(kMany, 1));
    std::deque<Sending<std::string>> sending;
    for (std::size_t i = 0; i < Keeping::kGraphs; ++i)
        sending.emplace_back(*one.pair.sender, one.text);
    for (const Deadline deadline = in_time(); one.kept.size() < Keeping::kGraphs; one.take()) {
        (void)one.pair.sender_context.lane().poll();
        ASSERT_FALSE(deadline.passed()) << one.kept.size();
    }
}

struct Block {
    std::array<char, 8'000> bytes{};
};

// On channel 1.
Errc send_block(HandMadeSender& peer, std::uint64_t id) {
    wire::Eager head = HandMadeSender::eager_of<Block>(id);
    head.channel = 1;
    return peer.eager(head, Block{});
}

// The rest of a graph is behind a small one that waits for memory of windows.
TEST(Windows, come_back_for_a_small_graph_in_the_midst_of_another) {
    Keeping one;
    (void)one.pair.transfer(Numbers(kMany, 1));
    one.fill();
    HandMadeSender peer(*one.pair.sender);
    ASSERT_EQ(peer.layout<Block>(), Errc::ok);
    ASSERT_EQ(peer.begin<Numbers>(2), Errc::ok);
    ASSERT_EQ(send_block(peer, 3), Errc::ok);
    auto received = receive_async<Block>(*one.pair.receiver, {.channel = 1});
    one.await(received);
    EXPECT_EQ(peer.cancel(2), Errc::ok);
}

TEST(Windows, are_asked_for_less_and_less_often_while_the_sender_does_not_look) {
    Keeping one;
    (void)one.pair.transfer(Numbers(kMany, 1));
    one.fill();
    HandMadeSender peer(*one.pair.sender);
    ASSERT_EQ(peer.layout<Block>(), Errc::ok);
    ASSERT_EQ(send_block(peer, 2), Errc::ok);
    auto received = receive_async<Block>(*one.pair.receiver, {.channel = 1});
    const auto said = [&] { return telemetry::counts_of(*one.pair.receiver).messages_sent; };
    const std::uint64_t before = said();
    for (const Deadline deadline = Deadline::after(300ms); !deadline.passed();)
        (void)one.pair.receiver_context.lane().poll();
    EXPECT_GT(said(), before);
    EXPECT_LT(said() - before, 60u);
    EXPECT_FALSE(received.test());
    one.await(received);
}

}  // namespace
}  // namespace verbatim
