// Memory that was lent for a graph, after the connection that it was lent on has closed: it may
// hold another connection's graph then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "objects_hand_made.hpp"
#include "objects_two_connections.hpp"

namespace verbatim::test {
namespace {

using Values = std::vector<int>;
constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::size_t kSlot = objects::wire::kSlotBytes;

// What is lent for a graph on the first connection.
std::vector<RemoteExtent> borrow(Pair& pair) {
    HandMadeSender peer(*pair.sender);
    if (peer.begin<Values>(1) != Errc::ok || peer.need(1, kBytes / kSlot) != Errc::ok) return {};
    std::vector<RemoteExtent> extents;
    for (int i = 0; i < 1000 && extents.empty(); ++i) {
        (void)readable(*pair.receiver);
        extents = peer.lent();
    }
    return extents;
}

TEST(LentMemory, is_out_of_the_peers_reach_once_the_connection_has_closed) {
    TwoConnections two;
    const std::vector<RemoteExtent> lent = borrow(two);
    ASSERT_EQ(lent.size(), 1u);
    Arena& arena = two.other_receiver->receive_arena();
    two.receiver.reset();
    auto* again = static_cast<std::byte*>(arena.allocate(kBytes, 4096));
    ASSERT_EQ(reinterpret_cast<std::uint64_t>(again), lent[0].address) << "the test wants that";
    std::memset(again, 0x11, kBytes);
    auto* source = static_cast<std::byte*>(two.sender_context.arena().allocate(kBytes, 64));
    std::memset(source, 0x22, kBytes);
    std::size_t written = 0;
    Errc code =
        two.other_sender->try_write(source, kBytes, lent[0].address, lent[0].remote_key, written);
    const Deadline deadline = Deadline::after(std::chrono::seconds(20));
    while (code <= Errc::would_block && !deadline.passed()) {
        code = two.other_sender->try_flush();
        (void)two.other_receiver->progress();
    }
    EXPECT_GT(code, Errc::would_block);
    EXPECT_TRUE(
        std::all_of(again, again + kBytes, [](std::byte b) { return b == std::byte{0x11}; }));
}

}  // namespace
}  // namespace verbatim::test
