// A path between two ends of the udp port that can be cut. A cut shorter than the time after which
// a peer is lost does not show.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "ports/roce/back_end/packet_socket.hpp"
#include "softnic_packet_peer.hpp"

namespace verbatim::softnic::test {
namespace {

using mlx5::Element;
using mlx5::Opcode;

// One side of the path: what its end takes for the other end.
class PathSide {
  public:
    explicit PathSide(End& end) : socket_(open_packet_socket(place_)) {
        const QueuePairAddress address = end.queue_pair->address();
        const StreamPlace ends{address.stream_address, address.stream_port};
        ends_ = name_of(ends);
        out_ = PacketChecksum(place_, ends);
    }
    const StreamPlace& place() const { return place_; }

    // The next packet of the end, without its checksum. False: there is none.
    bool receive(std::vector<std::byte>& packet) const {
        packet.resize(kMaxPacketBytes);
        const ssize_t got = recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
        if (got < static_cast<ssize_t>(kChecksumBytes)) return false;
        packet.resize(static_cast<std::size_t>(got) - kChecksumBytes);
        return true;
    }
    void send(std::vector<std::byte>& packet) {
        const iovec piece{packet.data(), packet.size()};
        const std::uint32_t sum = out_.of(std::span(&piece, 1));
        packet.resize(packet.size() + sizeof sum);
        std::memcpy(packet.data() + piece.iov_len, &sum, sizeof sum);
        sendto(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT, ends_.get(), ends_.bytes);
    }

  private:
    StreamPlace place_{loopback_address(), 0};
    Descriptor socket_;
    SocketName ends_;
    PacketChecksum out_;
};

class CutPath : public testing::Test {
  protected:
    CutPath() {
        const EndAddress address_a = a.address(), address_b = b.address();
        a.connect(reached_by(to_a, address_b));
        b.connect(reached_by(to_b, address_a));
    }
    // Carries what both have sent, or loses it; and polls them.
    void turn() {
        carry(to_a, to_b);
        carry(to_b, to_a);
        for (const mlx5::Completion& found : a.poll()) seen.push_back(found);
        for (const mlx5::Completion& found : b.poll()) received.push_back(found);
    }
    template <class Done>
    bool turn_until(Done done) {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        while (!done() && std::chrono::steady_clock::now() < deadline) turn();
        return done();
    }
    // One request of each kind.
    void post(std::uint64_t round) {
        const Element from = a.element(1024 * round, 600),
                      into = a.element(65536 + 1024 * round, 600);
        ASSERT_EQ(b.post_receive(131072 + 1024 * round, 1024, round), Errc::ok);
        ASSERT_EQ(a.post_write(pattern(8, static_cast<unsigned>(round)), 8 * round, round),
                  Errc::ok);
        ASSERT_EQ(a.post_send(std::span(&from, 1), round), Errc::ok);
        mlx5::WorkRequest read = a.request(Opcode::read, 4096);
        read.elements = std::span(&into, 1);
        ASSERT_EQ(a.send->post(read), Errc::ok);
        const Element before = a.element(200000 + 8 * round, 8);
        mlx5::WorkRequest add = a.request(Opcode::fetch_add, kCounter);
        add.elements = std::span(&before, 1);
        add.swap_or_add = 1;
        ASSERT_EQ(a.send->post(add), Errc::ok);
    }

    static constexpr std::size_t kKinds = 4, kCounter = 300000;
    End a{packet_end_options()}, b{packet_end_options()};
    PathSide to_a{a}, to_b{b};
    bool cut = false;
    std::size_t lost = 0;
    std::vector<mlx5::Completion> seen, received;

  private:
    static EndAddress reached_by(const PathSide& side, EndAddress address) {
        address.queue_pair.stream_address = side.place().address;
        address.queue_pair.stream_port = side.place().port;
        return address;
    }
    void carry(const PathSide& from, PathSide& to) {
        for (std::vector<std::byte> packet; from.receive(packet);) {
            if (cut)
                ++lost;
            else
                to.send(packet);
        }
    }
};

TEST_F(CutPath, for_less_than_the_timeout_does_not_show) {
    constexpr std::uint64_t kBefore = 2, kAll = 6;
    constexpr std::size_t kLost = 40;  // the timer has ended some times
    for (std::uint64_t round = 0; round < kBefore; ++round) post(round);
    ASSERT_TRUE(turn_until([&] { return seen.size() == kKinds * kBefore; }));
    cut = true;
    for (std::uint64_t round = kBefore; round < kAll; ++round) post(round);
    ASSERT_TRUE(turn_until([&] { return lost >= kLost; }));
    EXPECT_EQ(seen.size(), kKinds * kBefore);
    EXPECT_GT(packet_counts(*a.queue_pair).repeated, 0u);
    cut = false;
    ASSERT_TRUE(
        turn_until([&] { return seen.size() == kKinds * kAll && received.size() == kAll; }));
    for (const mlx5::Completion& completion : seen) EXPECT_EQ(completion.status, Errc::ok);
    for (std::uint64_t round = 0; round < kAll; ++round) {
        EXPECT_EQ(received[round].id, round);
        EXPECT_EQ(a.value<std::uint64_t>(200000 + 8 * round), round);
    }
    EXPECT_EQ(b.value<std::uint64_t>(kCounter), kAll);  // each once
    for (const End* end : {&a, &b}) {
        EXPECT_FALSE(end->queue_pair->peer_lost());
        EXPECT_EQ(end->queue_pair->state(), QueuePairState::ready);
    }
}

}  // namespace
}  // namespace verbatim::softnic::test
