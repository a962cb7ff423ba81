// Known fault A2, for issue 13 (grants are windows, and end with a barrier): memory that was lent
// for a graph can be written by the peer after the connection it was lent on is closed, when it may
// hold another connection's graph. Keys cover whole segments and are never revoked.
#include <algorithm>
#include <cstring>

#include "known_fault.hpp"
#include "objects_hand_made.hpp"
#include "objects_pair.hpp"

namespace verbatim::test {
namespace {

using Numbers = std::vector<int>;
constexpr std::size_t kBytes = std::size_t{1} << 20;

// Two connections between the same two contexts.
struct TwoConnections : Pair {
    TwoConnections() {
        Listener listener = receiver_context.listen("127.0.0.1:0");
        std::thread accepting([&] {
            other_receiver.emplace(listener.accept(Deadline::after(std::chrono::seconds(10))));
        });
        other_sender.emplace(
            sender_context.connect("127.0.0.1:" + std::to_string(listener.port())));
        accepting.join();
    }
    std::optional<Connection> other_sender, other_receiver;
};

// What is lent for a graph of kBytes on the first connection.
std::vector<RemoteExtent> borrow(Pair& pair) {
    HandMadeSender peer(*pair.sender);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    if (peer.offer<Numbers>(HandMadeSender::offer_of<Numbers>(1, kBytes)) != Errc::ok ||
        peer.layout<Numbers>(1) != Errc::ok)
        return {};
    std::vector<RemoteExtent> extents;
    for (int i = 0; i < 1000 && extents.empty(); ++i) {
        receiving.step();
        extents = peer.granted();
    }
    return extents;
}

Fault write_after_the_end() {
    TwoConnections two;
    const std::vector<RemoteExtent> lent = borrow(two);
    if (lent.size() != 1) return other("no memory was lent");
    Arena& arena = two.other_receiver->receive_arena();
    two.receiver.reset();
    auto* again = static_cast<std::byte*>(arena.allocate(kBytes, 4096));
    if (reinterpret_cast<std::uint64_t>(again) != lent[0].address)
        return other("the arena gave other memory");
    std::memset(again, 0x11, kBytes);
    auto* source = static_cast<std::byte*>(two.sender_context.arena().allocate(kBytes, 64));
    std::memset(source, 0x22, kBytes);
    std::size_t written = 0;
    Errc code =
        two.other_sender->try_write(source, kBytes, lent[0].address, lent[0].remote_key, written);
    for (int i = 0; i < 100'000 && code <= Errc::would_block; ++i) {
        code = two.other_sender->try_flush();
        if (code == Errc::ok) break;
    }
    const bool untouched =
        std::all_of(again, again + kBytes, [](std::byte b) { return b == std::byte{0x11}; });
    if (untouched && code > Errc::would_block) return Fault::gone;
    if (untouched) return other("the write was neither refused nor done");
    return present("memory that was lent on a closed connection was written");
}

}  // namespace
}  // namespace verbatim::test

int main() { return verbatim::test::known_fault(verbatim::test::write_after_the_end); }
