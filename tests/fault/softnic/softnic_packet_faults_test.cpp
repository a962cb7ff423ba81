// Faults of packets under the udp port, or the dpdk port: loss, duplication, reordering,
// corruption, a black hole, packets of strangers. Whatever happens, each request ends in exactly
// one completion, once, and in its order, and the data are right.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <optional>
#include <random>

#include <softnic_end.hpp>

namespace verbatim::softnic::test {
namespace {

using mlx5::Completion;
using mlx5::Element;
using mlx5::Opcode;
using mlx5::WorkRequest;

constexpr std::uint32_t kPercent = 10000;  // in millionths

EndOptions udp_options(const PacketFaults& faults) {
    EndOptions options;
    if (options.device.port != PortKind::dpdk) options.device.port = PortKind::udp;
    options.device.packet_faults = faults;
    options.memory_bytes = 4 << 20;
    options.queues = {.send_blocks = 64, .receive_entries = 64, .max_receive_elements = 3};
    return options;
}

// Requests of all kinds from one end to the other, a window of them on their way. Each goes to
// memory of its own place in the window.
class Traffic {
  public:
    Traffic(Pair& pair, std::uint64_t seed) : pair_(pair), random_(seed) {
        const auto source = pattern(kSlotBytes, 3);
        for (std::size_t i = 0; i < kWindow; ++i)
            std::copy(source.begin(), source.end(), pair_.b.at(kReadFrom + i * kSlotBytes));
    }

    // False: a request went wrong, or none ends.
    bool run(std::size_t requests) {
        for (std::size_t i = 0; i < kWindow; ++i) post_receive();
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100) +
                              requests * std::chrono::microseconds(200);
        while (done_ != requests) {
            while (posted_ != requests && posted_ - done_ != kWindow) post();
            for (const Completion& seen : pair_.a.poll())
                if (!check_request(seen)) return false;
            for (const Completion& seen : pair_.b.poll())
                if (!check_message(seen)) return false;
            if (std::chrono::steady_clock::now() > deadline) return false;
        }
        const auto all_came = [&] { return received_ == sent_; };
        while (!all_came() && std::chrono::steady_clock::now() < deadline)
            for (const Completion& seen : pair_.b.poll())
                if (!check_message(seen)) return false;
        // Nothing was executed twice.
        return all_came() && pair_.b.value<std::uint64_t>(kCounter) == added_ &&
               pair_.a.poll().empty();
    }

  private:
    static constexpr std::size_t kWindow = 24, kSlotBytes = 9000;
    static constexpr std::size_t kRegion = 256 << 10;
    static constexpr std::size_t kFrom = 0, kInto = kRegion, kWriteTo = 2 * kRegion,
                                 kReadFrom = 3 * kRegion, kInbox = 4 * kRegion,
                                 kCounter = 5 * kRegion;
    static_assert(kWindow * kSlotBytes <= kRegion);

    struct Posted {
        Opcode opcode{};
        std::size_t bytes = 0, offset = 0;
        std::uint64_t before = 0;  // of fetch-and-add
    };
    struct Message {
        std::size_t bytes = 0;
        unsigned seed = 0;
    };

    static std::size_t slot(std::size_t index) { return index % kWindow * kSlotBytes; }

    void post() {
        static constexpr std::array kKinds{Opcode::write, Opcode::read, Opcode::fetch_add,
                                           Opcode::send_immediate};
        Posted& next = requests_[posted_ % kWindow];
        next = {kKinds[random_() % kKinds.size()], 0, random_() % 8, added_};
        // Most are short; some have several packets.
        next.bytes = 1 + random_() % (random_() % 16 == 0 ? kSlotBytes - 8 : 64);
        if (next.opcode == Opcode::fetch_add) next.bytes = 8, ++added_;
        WorkRequest request = pair_.a.request(next.opcode);
        request.id = posted_;
        const std::size_t at = slot(posted_);
        Element element = pair_.a.element(kFrom + at, next.bytes);
        if (next.opcode == Opcode::read || next.opcode == Opcode::fetch_add) {
            element = pair_.a.element(kInto + at, next.bytes);
            request.remote_address += kReadFrom + at + next.offset;
        } else {
            const auto seed = static_cast<unsigned>(posted_);
            const auto payload = pattern(next.bytes, seed);
            std::copy(payload.begin(), payload.end(), pair_.a.at(kFrom + at));
            request.remote_address += kWriteTo + at + next.offset;
            if (next.opcode == Opcode::send_immediate) {
                request.immediate = static_cast<std::uint32_t>(sent_);
                messages_[sent_++ % kMessages] = {next.bytes, seed};
            }
        }
        if (next.opcode == Opcode::fetch_add) {
            request.remote_address = pair_.a.peer.address + kCounter;
            request.swap_or_add = 1;
        }
        request.elements = std::span(&element, 1);
        ASSERT_EQ(pair_.a.send->post(request), Errc::ok);
        ++posted_;
    }

    bool check_request(const Completion& seen) {
        const Posted& posted = requests_[done_ % kWindow];
        const std::size_t at = slot(done_);
        const bool ok = seen.status == Errc::ok && seen.id == done_;
        ++done_;
        if (!ok) return false;
        if (posted.opcode == Opcode::fetch_add)
            return pair_.a.value<std::uint64_t>(kInto + at) == posted.before;
        if (posted.opcode == Opcode::read)
            return std::equal(pair_.a.at(kInto + at), pair_.a.at(kInto + at) + posted.bytes,
                              pair_.b.at(kReadFrom + at + posted.offset));
        return posted.opcode != Opcode::write ||
               std::equal(pair_.a.at(kFrom + at), pair_.a.at(kFrom + at) + posted.bytes,
                          pair_.b.at(kWriteTo + at + posted.offset));
    }

    void post_receive() {
        ASSERT_EQ(pair_.b.post_receive(kInbox + slot(receives_), kSlotBytes, receives_), Errc::ok);
        ++receives_;
    }

    bool check_message(const Completion& seen) {
        const Message& message = messages_[received_ % kMessages];
        const auto payload = pattern(message.bytes, message.seed);
        const bool ok =
            seen.status == Errc::ok && seen.id == received_ &&
            seen.immediate == static_cast<std::uint32_t>(received_) &&
            seen.bytes == message.bytes &&
            std::equal(payload.begin(), payload.end(), pair_.b.at(kInbox + slot(received_)));
        ++received_;
        post_receive();
        return ok;
    }

    static constexpr std::size_t kMessages = 256;
    Pair& pair_;
    std::mt19937_64 random_;
    std::array<Posted, kWindow> requests_{};
    std::array<Message, kMessages> messages_{};
    std::uint64_t posted_ = 0, done_ = 0, added_ = 0;
    std::uint64_t sent_ = 0, received_ = 0, receives_ = 0;
};

// VERBATIM_LONG: ten million.
TEST(PacketFaults, a_hundred_thousand_requests_survive_one_percent_of_loss) {
    const std::size_t requests = std::getenv("VERBATIM_LONG") != nullptr ? 10000000 : 100000;
    Pair pair(udp_options({.lose = kPercent, .seed = 7}));
    ASSERT_STREQ(pair.a.queue_pair->transport(), "udp");
    Traffic traffic(pair, 11);
    EXPECT_TRUE(traffic.run(requests));
    const PacketCounts counts = packet_counts(*pair.a.queue_pair);
    EXPECT_GT(counts.repeated, 100u);
    EXPECT_GT(counts.sent, requests);
    EXPECT_EQ(counts.dropped, 0u);
}

TEST(PacketFaults, loss_duplication_swaps_and_corruption_change_no_data) {
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
        Pair pair(udp_options({.lose = 3 * kPercent,
                               .duplicate = 3 * kPercent,
                               .swap = 3 * kPercent,
                               .corrupt = 3 * kPercent,
                               .seed = seed}));
        Traffic traffic(pair, seed);
        EXPECT_TRUE(traffic.run(5000)) << seed;
        EXPECT_GT(packet_counts(*pair.b.queue_pair).dropped, 10u);
    }
}

TEST(PacketFaults, a_tenth_of_all_packets_may_be_lost) {
    Pair pair(udp_options({.lose = 10 * kPercent, .seed = 5}));
    Traffic traffic(pair, 5);
    EXPECT_TRUE(traffic.run(2000));
}

TEST(PacketFaults, a_black_hole_ends_with_retry_exceeded) {
    EndOptions hole = udp_options({.lose = 100 * kPercent});
    hole.device.packets.timeout = std::chrono::milliseconds(100);
    Pair pair(hole, udp_options({}));
    ASSERT_EQ(pair.a.post_write(pattern(8), 64, 1), Errc::ok);
    ASSERT_EQ(pair.a.post_write(pattern(8), 64, 2), Errc::ok);
    ASSERT_TRUE(pair.poll_for(2, 0));
    EXPECT_EQ(pair.seen_a[0].status, Errc::retry_exceeded);
    EXPECT_EQ(pair.seen_a[1].status, Errc::flushed);
    EXPECT_TRUE(pair.a.queue_pair->peer_lost());
    EXPECT_EQ(pair.b.value<std::uint64_t>(64), 0u);
}

TEST(PacketFaults, packets_cross_by_ipv6_too) {
    EndOptions options = udp_options({.lose = kPercent, .corrupt = kPercent, .seed = 3});
    options.queues.local_address = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    std::optional<Pair> pair;
    try {
        pair.emplace(options);
    } catch (const Error& error) {
        GTEST_SKIP() << "no IPv6 here: " << error.what();
    }
    EXPECT_EQ(pair->a.queue_pair->address().stream_address[15], 1);
    Traffic traffic(*pair, 3);
    EXPECT_TRUE(traffic.run(2000));
    EXPECT_GT(packet_counts(*pair->b.queue_pair).dropped, 0u);
}

// A socket of this machine that is not the peer's, and sends no packets. Forged ones:
// PacketResponder.
TEST(PacketFaults, datagrams_of_strangers_are_dropped_and_counted) {
    Pair pair(udp_options({}));
    const QueuePairAddress address = pair.b.queue_pair->address();
    const int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ASSERT_GE(stranger, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(address.stream_port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    constexpr std::uint64_t kPackets = 20;
    for (std::uint64_t i = 0; i < kPackets; ++i) {
        const auto bytes = pattern(64, static_cast<unsigned>(i));
        ASSERT_EQ(sendto(stranger, bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&to),
                         sizeof to),
                  static_cast<ssize_t>(bytes.size()));
    }
    close(stranger);
    ASSERT_EQ(pair.a.post_write(pattern(8), 64, 1), Errc::ok);
    ASSERT_TRUE(pair.poll_for(1, 0));
    EXPECT_EQ(pair.seen_a[0].status, Errc::ok);
    EXPECT_EQ(packet_counts(*pair.b.queue_pair).dropped, kPackets);
    EXPECT_EQ(pair.b.queue_pair->state(), QueuePairState::ready);
}

}  // namespace
}  // namespace verbatim::softnic::test
