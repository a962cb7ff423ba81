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
          endpoint(*resources, make_room(owned_lane, config), {}) {}

    std::shared_ptr<Context::Impl> resources;
    std::shared_ptr<Lane::Impl> owned_lane;
    Lane::Impl& lane = *owned_lane;
    Endpoint endpoint;
};

// The body of the next frame.
inline std::vector<std::byte> hear(const RawSocket& socket) {
    const auto header = socket.get(FrameHeader::kBytes);
    return socket.get(parse_frame_header(header, "test").body_bytes);
}

class HandMadePeer {
  public:
    // `change`: of the hello that it says.
    explicit HandMadePeer(
        const Config& config, void (*change)(Hello&) = [](Hello&) {})
        : serving_(config), own_(config), endpoint_(own_.endpoint) {
        Listener listener = serving_.listen("127.0.0.1:0");
        const Deadline soon = Deadline::after(std::chrono::seconds(30));
        std::thread accepting([&] { connection_.emplace(listener.accept(soon)); });
        socket_.emplace(RawSocket::connected(listener.port()));
        Hello mine = endpoint_.hello();
        change(mine);
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

    // Asks to move, to a queue pair that does not connect yet.
    void ask_to_move() {
        next_room_.emplace(own_.lane.queue(), own_.resources->config);
        next_ = endpoint_.make_queue_pair(*next_room_, {});
        say(FrameType::move, encode_hello(endpoint_.hello_of(*next_, own_.lane.mode(), nullptr)));
    }
    // Answers a move with a queue pair that connects.
    void answer_move(const Hello& theirs) {
        ask_to_move();
        next_->connect(theirs.queue_pair, 5000);
    }
    // As if the process had died: the other side's next frame cannot be sent.
    void reset_socket() {
        const linger now{1, 0};
        setsockopt(socket_->fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
        socket_.reset();
    }
    void end_connection() { connection_.reset(); }

    // Drives this side; the first error of its queue pair.
    Errc progress() noexcept {
        own_.lane.poll();
        return member().path().error();
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
    // Of the honest side, which sees it then.
    void write_armed(std::uint64_t value) {
        write_word(theirs_.armed_address, theirs_.words_key, value);
        const auto& word = *reinterpret_cast<const std::uint64_t*>(theirs_.armed_address);
        const Deadline deadline = Deadline::after(std::chrono::seconds(30));
        while (load_word(word) != value && !deadline.passed()) own_.lane.poll();
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
    std::optional<Reservation> next_room_;
    std::unique_ptr<QueuePairHandle> next_;
};

}  // namespace verbatim::test
