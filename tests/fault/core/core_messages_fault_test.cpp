// A peer made by hand that breaks the protocols of tagged messages and streams: what it sends ends
// their layer, and nothing of it is handed out.
#include <array>
#include <cstring>
#include <vector>

#include <verbatim/core/stream.hpp>
#include <verbatim/core/tagged.hpp>

#include "core_hand_made_peer.hpp"

namespace verbatim {
namespace {

using test::HandMadePeer;
using Bytes = std::vector<std::byte>;

constexpr std::uint8_t kTagged = 241, kStream = 242;
constexpr std::uint8_t kCopied = 0, kFinished = 1, kLent = 2, kRead = 3, kTaken = 15;  // kinds

Bytes of_words(std::initializer_list<std::uint64_t> words, std::size_t more = 0) {
    Bytes bytes(words.size() * sizeof(std::uint64_t) + more);
    std::memcpy(bytes.data(), words.begin(), words.size() * sizeof(std::uint64_t));
    return bytes;
}
// An extent's key and its reserved word.
std::uint64_t key(std::uint32_t value, std::uint32_t reserved = 0) {
    return value | std::uint64_t{reserved} << 32;
}

struct Sent {
    std::uint8_t kind;
    Bytes body;
};

// Sends these on `channel`, and lets the honest side handle all of them.
void send_all(HandMadePeer& peer, std::uint8_t channel, const std::vector<Sent>& all) {
    const Deadline deadline = Deadline::after(std::chrono::seconds(30));
    for (const Sent& one : all) {
        Errc error = Errc::would_block;
        while (error == Errc::would_block && !deadline.passed()) {
            error = peer.ring().try_send({.channel = channel, .kind = one.kind, .body = one.body});
            (void)peer.progress();
            (void)peer.connection().progress();
        }
        ASSERT_EQ(error, Errc::ok);
    }
    for (int i = 0; i < 100; ++i) (void)peer.connection().progress(), (void)peer.progress();
}

// How a receive of any tag ends.
Errc end_of_receive(const std::vector<Sent>& all) {
    HandMadePeer peer(test::small_config());
    Tagged tagged(peer.connection());
    send_all(peer, kTagged, all);
    std::array<std::byte, 16> into;
    TaggedReceive receive(0, into, 0);
    tagged.receive(receive);
    const Deadline deadline = Deadline::after(std::chrono::seconds(1));
    while (receive.result() == Errc::would_block && !deadline.passed())
        (void)peer.connection().progress(), (void)peer.progress();
    EXPECT_EQ(peer.connection().state() == Errc::ok, receive.result() != Errc::remote_access);
    return receive.result();
}

TEST(TaggedPeer, that_breaks_the_protocol_ends_its_tagged_messages) {
    EXPECT_EQ(end_of_receive({{kCopied, of_words({1}, 4)}}), Errc::ok) << "an honest one";
    EXPECT_EQ(end_of_receive({{kCopied, Bytes(7)}}), Errc::protocol_error) << "no tag";
    EXPECT_EQ(end_of_receive({{kFinished, {}}}), Errc::protocol_error) << "unknown kind";
    EXPECT_EQ(end_of_receive({{kTaken, Bytes(7)}}), Errc::protocol_error);
    EXPECT_EQ(end_of_receive({{kTaken, of_words({1})}}), Errc::protocol_error) << "never sent";
    EXPECT_EQ(end_of_receive({{kRead, of_words({1})}}), Errc::protocol_error) << "never lent";
    EXPECT_EQ(end_of_receive({{kRead, {}}}), Errc::protocol_error);
}

TEST(TaggedPeer, whose_offers_are_none_ends_its_tagged_messages) {
    constexpr std::uint64_t kFar = std::uint64_t{1} << 48;
    const auto offer = [](std::initializer_list<std::uint64_t> words) {
        return std::vector<Sent>{{kLent, of_words(words)}};
    };
    EXPECT_EQ(end_of_receive(offer({1, 1})), Errc::protocol_error) << "of nothing";
    EXPECT_EQ(end_of_receive(offer({1, 1, 4096, 0, key(5)})), Errc::protocol_error) << "no bytes";
    EXPECT_EQ(end_of_receive(offer({1, 1, 4096, 8})), Errc::protocol_error) << "half an extent";
    EXPECT_EQ(end_of_receive(offer({1, 1, 4096, 8, key(5, 1)})), Errc::protocol_error);
    EXPECT_EQ(end_of_receive(offer({1, 1, 4096, kFar + 1, key(5)})), Errc::protocol_error);
    EXPECT_EQ(end_of_receive(offer({1, 1, 0, kFar, key(5), 0, 1, key(5)})), Errc::protocol_error);
    std::vector<Sent> many;
    for (std::uint64_t id = 1; id <= 17; ++id)
        many.push_back({kLent, of_words({id, 9, 4096, 8, key(5)})});
    HandMadePeer peer(test::small_config());
    Tagged tagged(peer.connection());
    send_all(peer, kTagged, many);
    std::array<std::byte, 16> into;
    TaggedReceive receive(1, into);
    tagged.receive(receive);
    EXPECT_EQ(receive.result(), Errc::protocol_error) << "more than may be open";
}

// Its own lies hurt it: a read of what it did not lend fails.
TEST(TaggedPeer, that_offers_memory_which_it_does_not_lend_loses_the_connection) {
    EXPECT_EQ(end_of_receive({{kLent, of_words({1, 1, 4096, 8, key(0x12300)})}}),
              Errc::remote_access);
}

TEST(TaggedPeer, that_sends_beyond_the_window_is_held_to_it) {
    std::vector<Sent> much;
    for (int i = 0; i < 300; ++i) much.push_back({kCopied, of_words({7}, 4096)});
    HandMadePeer peer(test::small_config());
    Tagged tagged(peer.connection());
    send_all(peer, kTagged, much);
    std::array<std::byte, 16> into;
    TaggedReceive receive(1, into);
    tagged.receive(receive);
    EXPECT_EQ(receive.result(), Errc::protocol_error);
}

// What a stream says behind the bytes that were good.
Errc end_of_stream(const std::vector<Sent>& all, std::size_t good) {
    HandMadePeer peer(test::small_config());
    Stream stream(peer.connection());
    send_all(peer, kStream, all);
    std::vector<std::byte> into(Stream::kWindow);
    std::size_t read = 0, in_all = 0;
    Errc error = Errc::ok;
    const Deadline deadline = Deadline::after(std::chrono::seconds(1));
    while ((error == Errc::ok || error == Errc::would_block) && !deadline.passed()) {
        error = stream.try_read(into, read);
        if (error == Errc::ok && read == 0) break;  // the end
        in_all += read;
        (void)peer.connection().progress(), (void)peer.progress();
    }
    EXPECT_EQ(in_all, good);
    return error;
}

TEST(StreamPeer, that_breaks_the_protocol_ends_its_stream) {
    const Sent some{kCopied, Bytes(10)}, end{kFinished, {}};
    EXPECT_EQ(end_of_stream({some, end}, 10), Errc::ok) << "an honest one";
    EXPECT_EQ(end_of_stream({some, {kCopied, {}}}, 10), Errc::protocol_error) << "no bytes";
    EXPECT_EQ(end_of_stream({some, end, some}, 10), Errc::protocol_error) << "after the end";
    EXPECT_EQ(end_of_stream({some, end, end}, 10), Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, {kFinished, Bytes(1)}}, 10), Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, {9, {}}}, 10), Errc::protocol_error) << "unknown kind";
    EXPECT_EQ(end_of_stream({some, {kTaken, of_words({1})}}, 10), Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, {kRead, of_words({1})}}, 10), Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, {kLent, of_words({1, 0})}}, 10), Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, end, {kLent, of_words({1, 0, 4096, 8, key(5)})}}, 10),
              Errc::protocol_error);
    EXPECT_EQ(end_of_stream({some, {kLent, of_words({1, 0, 4096, 8, key(0x12300)})}}, 10),
              Errc::remote_access);
    const std::vector<Sent> much(65, {kCopied, Bytes(4096)});
    EXPECT_EQ(end_of_stream(much, 64 * 4096), Errc::protocol_error) << "beyond the window";
}

}  // namespace
}  // namespace verbatim
