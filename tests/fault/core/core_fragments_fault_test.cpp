// A peer made by hand whose fragments contradict each other, or whose notices are none: its
// connection ends, and nothing of the message is handed out.
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

Errc end_after_notice(std::size_t bytes) {
    HandMadePeer peer(test::small_config());
    const std::vector<std::byte> keys(bytes, std::byte{0xff});
    EXPECT_EQ(peer.ring().try_send({.body = keys, .frame = ring::Frame::ended_keys}), Errc::ok);
    EXPECT_EQ(peer.ring().try_send({.channel = 5}), Errc::ok);
    Message message;
    const Errc end = peer.connection().try_receive(message);
    EXPECT_EQ(bool(message), end == Errc::ok);
    return end;
}

TEST(Notices, that_are_no_keys_end_their_connection) {
    EXPECT_EQ(end_after_notice(0), Errc::protocol_error);
    EXPECT_EQ(end_after_notice(3), Errc::protocol_error);
    EXPECT_EQ(end_after_notice(9), Errc::protocol_error);
    EXPECT_EQ(end_after_notice(4), Errc::ok) << "of a key that nobody uses";
    EXPECT_EQ(end_after_notice(256), Errc::ok);
    EXPECT_EQ(end_after_notice(260), Errc::protocol_error) << "more than a notice has";
}

}  // namespace
}  // namespace verbatim
