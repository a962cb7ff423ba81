// A peer made by hand whose fragments contradict each other: its connection ends, and nothing of
// the message is handed out.
#include "core_hand_made_peer.hpp"
#include "ring/fragments.hpp"

namespace verbatim {
namespace {

using test::HandMadePeer;

struct Fragment {
    FragmentHead head;
    std::size_t bytes;
    std::uint8_t channel = 1;
};

Errc end_after(const std::vector<Fragment>& fragments) {
    Config config = test::small_config();
    config.ring.longest_message = 4096;
    HandMadePeer peer(config);
    for (const Fragment& fragment : fragments) {
        const std::vector<std::byte> body(fragment.bytes);
        EXPECT_EQ(peer.ring().try_send({.channel = fragment.channel,
                                        .head = std::as_bytes(std::span(&fragment.head, 1)),
                                        .body = body,
                                        .frame = ring::Frame::fragment}),
                  Errc::ok);
    }
    Message message;
    const Errc end = peer.connection().try_receive(message);
    EXPECT_FALSE(message);
    return end;
}

TEST(Fragments, that_contradict_each_other_end_their_connection) {
    EXPECT_EQ(end_after({{{100, 10}, 10}}), Errc::protocol_error) << "no beginning";
    EXPECT_EQ(end_after({{{100, 0}, 10}, {{100, 20}, 10}}), Errc::protocol_error) << "a gap";
    EXPECT_EQ(end_after({{{100, 0}, 10}, {{100, 5}, 10}}), Errc::protocol_error) << "a repetition";
    EXPECT_EQ(end_after({{{100, 0}, 10}, {{200, 10}, 10}}), Errc::protocol_error) << "another sum";
    EXPECT_EQ(end_after({{{100, 0}, 10}, {{100, 10}, 10, 2}}), Errc::protocol_error) << "channel";
    EXPECT_EQ(end_after({{{100, 0}, 101}}), Errc::protocol_error) << "more than announced";
    EXPECT_EQ(end_after({{{100, 0}, 0}}), Errc::protocol_error) << "nothing";
    EXPECT_EQ(end_after({{{0, 0}, 10}}), Errc::protocol_error) << "a message of nothing";
    EXPECT_EQ(end_after({{{4097, 0}, 10}}), Errc::protocol_error) << "beyond the bound";
    EXPECT_EQ(end_after({{{~std::uint64_t{0}, 0}, 10}}), Errc::protocol_error) << "far beyond it";
    EXPECT_EQ(end_after({{{4096, 0}, 10}}), Errc::would_block) << "a good beginning";
}

}  // namespace
}  // namespace verbatim
