// A peer of a listener that is made by hand: a queue pair with all its keys, and the TCP side
// channel byte by byte.
#pragma once

#include <optional>
#include <span>
#include <thread>

#include "bootstrap/hello.hpp"
#include "connection/connection_impl.hpp"
#include "core_fault.hpp"

namespace verbatim::test {

// Half of a connection with a device and a lane of its own.
struct LoneEndpoint {
    explicit LoneEndpoint(const Config& config)
        : resources(std::make_shared<Context::Impl>(config, open_configured_device(config))),
          owned_lane(make_lane(resources, resources->config.lane)),
          reservation(lane.queue(), config),
          endpoint(*resources, {lane.queue().handle(), lane.mode()}, {}) {}

    std::shared_ptr<Context::Impl> resources;
    std::shared_ptr<Lane::Impl> owned_lane;
    Lane::Impl& lane = *owned_lane;
    Reservation reservation;
    Endpoint endpoint;
};

// The body of the next frame.
inline std::vector<std::byte> hear(const RawSocket& socket) {
    const auto header = socket.get(FrameHeader::kBytes);
    return socket.get(parse_frame_header(header, "test").body_bytes);
}

class HandMadePeer {
  public:
    // `features`: those of its hello that it offers.
    explicit HandMadePeer(const Config& config, std::uint64_t features = ~std::uint64_t{0})
        : serving_(config), own_(config), endpoint_(own_.endpoint) {
        Listener listener = serving_.listen("127.0.0.1:0");
        const Deadline soon = Deadline::after(std::chrono::seconds(30));
        std::thread accepting([&] { connection_.emplace(listener.accept(soon)); });
        socket_.emplace(RawSocket::connected(listener.port()));
        Hello mine = endpoint_.hello();
        mine.features &= features;
        say(FrameType::hello, encode_hello(mine));
        theirs_ = parse_hello(hear(*socket_));
        endpoint_.connect(theirs_, soon);
        say(FrameType::ready, {});
        hear(*socket_);
        accepting.join();
        endpoint_.join(own_.lane.queue(), own_.lane.polled());
    }

    // The honest side.
    Connection& connection() { return *connection_; }
    Context& context() { return serving_; }
    // This side.
    LaneMember& member() { return endpoint_.member(); }
    const Hello& theirs() const { return theirs_; }
    Hello mine() const { return endpoint_.hello(); }
    MessageRing& ring() { return member().ring(); }
    void say(FrameType type, std::span<const std::byte> body) {
        EXPECT_TRUE(socket_->put(encode_frame(type, body)));
    }
    // Bytes as they are, perhaps several frames.
    void put(std::span<const std::byte> bytes) { EXPECT_TRUE(socket_->put(bytes)); }
    // The body of the next frame.
    std::vector<std::byte> hear_frame() { return hear(*socket_); }
    void say_bye(std::uint64_t sent, std::uint64_t taken = 0) {
        say(FrameType::bye, encode_bye({sent, taken}));
    }

    // Requests past all rules.
    void write_word(std::uint64_t address, std::uint32_t key, std::uint64_t value) {
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::write,
                                  .remote_address = address,
                                  .remote_key = key,
                                  .inline_payload = std::as_bytes(std::span(&value, 1))};
        EXPECT_EQ(member().path().post(request), Errc::ok);
    }
    void send_immediate(std::uint32_t immediate) {
        mlx5::WorkRequest request{.opcode = mlx5::Opcode::write_immediate, .immediate = immediate};
        EXPECT_EQ(member().path().post(request), Errc::ok);
    }
    // Drives both ends until the honest one has ended, and returns why.
    Errc end_of_connection() {
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        while (connection_->progress() == Errc::ok && !deadline.passed()) own_.lane.poll();
        return connection_->state();
    }
    // The same, where it asks for this side's words.
    Errc end_of_connection_after_arming() {
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        while (connection_->progress() == Errc::ok && !deadline.passed()) {
            (void)connection_->lane().prepare_to_sleep();
            own_.lane.poll();
        }
        return connection_->state();
    }
    // Drives both ends until the honest one has armed this direction.
    bool is_armed() {
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        while (!connection_->lane().prepare_to_sleep() && !deadline.passed()) own_.lane.poll();
        return !deadline.passed();
    }

  private:
    Context serving_;
    LoneEndpoint own_;
    Endpoint& endpoint_;
    Hello theirs_;
    std::optional<RawSocket> socket_;
    std::optional<Connection> connection_;
};

}  // namespace verbatim::test
