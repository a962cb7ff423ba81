// A peer made by hand that takes its leave over TCP before, or without, having written what it says
// it has.
#include "bootstrap/hello.hpp"
#include "connection/connection_impl.hpp"
#include "connection/endpoint.hpp"
#include "core_fault.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;

Deadline soon() { return Deadline::after(30s); }

// A queue pair that is connected to one of a listener, and the TCP side channel by hand.
class HandMadePeer {
  public:
    explicit HandMadePeer(const Config& config)
        : context_(config), serving_(config), endpoint_(context_.device(), context_.config(), {}) {
        Listener listener = serving_.listen("127.0.0.1:0");
        std::thread accepting([&] { connection_.emplace(listener.accept(soon())); });
        socket_.emplace(test::RawSocket::connected(listener.port()));
        say(FrameType::hello, encode_hello(endpoint_.hello()));
        endpoint_.connect(parse_hello(hear()), soon());
        say(FrameType::ready, {});
        hear();
        accepting.join();
    }
    Connection& connection() { return *connection_; }
    MessageRing& ring() { return endpoint_.ring(); }
    void say_bye(std::uint64_t sent) { say(FrameType::bye, encode_bye({sent})); }
    // Until the other side knows of the bye, and so accepts nothing any more.
    void expect_bye_is_heard() {
        const Deadline deadline = soon();
        while (connection_->try_send(1, {}) != Errc::peer_lost) {
            ASSERT_FALSE(deadline.passed());
            (void)connection_->progress();
        }
    }

  private:
    void say(FrameType type, std::span<const std::byte> body) {
        EXPECT_TRUE(socket_->put(encode_frame(type, body)));
    }
    std::vector<std::byte> hear() {
        const auto header = socket_->get(FrameHeader::kBytes);
        return socket_->get(parse_frame_header(header, "test").body_bytes);
    }

    Context context_, serving_;
    Endpoint endpoint_;
    std::optional<test::RawSocket> socket_;
    std::optional<Connection> connection_;
};

TEST(Bye, that_overtakes_a_message_does_not_hide_it) {
    HandMadePeer peer(test::small_config());
    const std::string text = "behind the bye";
    peer.say_bye(ring::slot_bytes(text.size()));
    peer.expect_bye_is_heard();
    Message message;
    EXPECT_EQ(peer.connection().try_receive(message), Errc::would_block);
    EXPECT_EQ(peer.connection().state(), Errc::ok);
    ASSERT_EQ(peer.ring().try_send(3, std::as_bytes(std::span(text)), {}), Errc::ok);
    EXPECT_EQ(peer.connection().receive_message(soon()).payload.size(), text.size());
    peer.connection().release_message();
    EXPECT_EQ(test::error_of([&] { peer.connection().receive_message(soon()); }).code(),
              Errc::peer_lost);
    EXPECT_TRUE(peer.connection().peer_closed());
}

TEST(Bye, of_a_peer_that_did_not_send_what_it_says_is_a_loss) {
    HandMadePeer peer(test::small_config());
    peer.say_bye(std::uint64_t{1} << 40);
    EXPECT_EQ(test::error_of([&] { peer.connection().receive_message(soon()); }).code(),
              Errc::peer_lost);
    EXPECT_FALSE(peer.connection().peer_closed());
}

}  // namespace
}  // namespace verbatim
