// The counts of connections and lanes: exact for every way of sending, in the process itself and in
// its segment once its lane sleeps.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include <verbatim/core/one_sided.hpp>
#include <verbatim/core/prepared.hpp>

#include "core_telemetry.hpp"

namespace verbatim {
namespace {

using telemetry::ConnectionCounts;
using telemetry::counts_of;
using test::SegmentDirectory;

std::span<const std::byte> zeros(std::size_t bytes) {
    static const std::vector<std::byte> all(1 << 20);
    return std::span(all).first(bytes);
}

struct CountedPair : SegmentDirectory {
    explicit CountedPair(const Config& with) : pair(with, with) {}
    CountedPair() : pair(config(), config()) {}

    // Until both lanes may sleep.
    void settle() {
        Lane one = pair.sender_context.lane(), other = pair.receiver_context.lane();
        for (const Deadline limit = Deadline::after(std::chrono::seconds(30)); !limit.passed();)
            if (one.prepare_to_sleep() && other.prepare_to_sleep()) {
                if (one.poll() + other.poll() == 0 && one.prepare_to_sleep()) return;
            }
        ADD_FAILURE() << "the lanes do not come to rest";
    }
    // What the segment of that process's context tells of the connection to this port.
    ConnectionCounts read(Connection& of) {
        for (const telemetry::Process& process : SegmentDirectory::read())
            for (const ConnectionCounts& one : process.connections)
                if (telemetry::text_of(one.peer) == of.peer_name()) return one;
        ADD_FAILURE() << "no segment tells of " << of.peer_name();
        return {};
    }
    // As often as it takes: a short send queue is soon full.
    void send(std::uint8_t channel, std::size_t bytes) {
        while (pair.sender->try_send(channel, zeros(bytes)) == Errc::would_block)
            (void)pair.sender->progress();
    }
    void receive(std::size_t messages) {
        const Deadline limit = Deadline::after(std::chrono::seconds(30));
        for (std::size_t i = 0; i < messages; ++i)
            received.push_back(pair.receiver->receive_message(limit).payload().size());
    }
    void post() { (void)pair.sender_context.lane().poll(); }

    test::ConnectedPair pair;
    std::vector<std::size_t> received;
};

TEST(TelemetryCounts, of_messages_are_exact_for_each_way_of_sending) {
    CountedPair ends;
    Connection& out = *ends.pair.sender;
    for (const std::size_t bytes : {0UL, 1UL, 8UL, 100UL, 3000UL}) ends.send(1, bytes);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(out.try_batch(1, zeros(10)), Errc::ok);
    ends.post();
    Claim claim;
    std::optional<Claim> dropped{std::in_place};
    ASSERT_EQ(out.try_claim(1, 50, claim), Errc::ok);
    ASSERT_EQ(out.try_claim(1, 50, *dropped), Errc::ok);
    ASSERT_EQ(claim.commit(20), Errc::ok);
    dropped.reset();  // abandoned
    ends.post();
    ends.receive(9);
    const ConnectionCounts sent = counts_of(out), received = counts_of(*ends.pair.receiver);
    EXPECT_EQ(sent.messages_sent, 9U);
    EXPECT_EQ(sent.bytes_sent, 3109U + 30 + 20);
    EXPECT_EQ(sent.batched_messages, 3U);
    EXPECT_EQ(sent.batches_sent, 1U);
    EXPECT_EQ(sent.records_sent, 5U + 1 + 1);
    EXPECT_EQ(received.messages_received, sent.messages_sent);
    EXPECT_EQ(received.bytes_received, sent.bytes_sent);
    EXPECT_EQ(received.messages_sent, 0U);
    EXPECT_GE(sent.requests_posted, sent.records_sent);
    EXPECT_EQ(sent.requests_failed, 0U);
}

TEST(TelemetryCounts, of_a_message_in_fragments_are_of_one_message) {
    CountedPair ends;
    constexpr std::size_t kBytes = 700'000;
    std::thread sending([&] {
        ends.pair.sender->send_message(1, zeros(5), zeros(kBytes),
                                       Deadline::after(std::chrono::seconds(30)));
    });
    ends.receive(1);
    sending.join();
    const ConnectionCounts sent = counts_of(*ends.pair.sender),
                           received = counts_of(*ends.pair.receiver);
    EXPECT_EQ(ends.received.at(0), kBytes + 5);
    EXPECT_GT(sent.fragments_sent, 1U);
    EXPECT_EQ(sent.messages_sent, 1U);
    EXPECT_EQ(sent.bytes_sent, kBytes + 5);
    EXPECT_EQ(received.messages_received, 1U);
    EXPECT_EQ(received.bytes_received, kBytes + 5);
}

TEST(TelemetryCounts, of_channels_tell_handlers_from_the_others) {
    CountedPair ends;
    int handled = 0;
    ends.pair.receiver->on(7, [&](Message&) { ++handled; });
    for (int i = 0; i < 20; ++i) {
        ends.send(7, 3);
        ends.send(9, 5);
    }
    ends.receive(20);
    for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
         handled != 20 && !limit.passed();)
        (void)ends.pair.receiver_context.lane().poll();
    const ConnectionCounts counts = counts_of(*ends.pair.receiver);
    ASSERT_EQ(counts.channel_count, 2U);
    EXPECT_EQ(counts.channels[0].channel, 7U);
    EXPECT_EQ(counts.channels[0].messages, 20U);
    EXPECT_EQ(counts.channels[0].bytes, 60U);
    EXPECT_EQ(counts.channels[1].channel, telemetry::kOtherChannels);
    EXPECT_EQ(counts.channels[1].messages, 20U);
    EXPECT_EQ(counts.messages_received, 40U);
    EXPECT_EQ(counts.bytes_received, 160U);
}

TEST(TelemetryCounts, of_channels_beyond_the_most_are_counted_with_the_others) {
    CountedPair ends;
    constexpr std::size_t kChannels = telemetry::kMostChannels + 4;
    std::size_t handled = 0;
    for (std::size_t i = 0; i < kChannels; ++i)
        ends.pair.receiver->on(static_cast<std::uint8_t>(i), [&](Message&) { ++handled; });
    for (std::size_t i = 0; i < kChannels; ++i) ends.send(static_cast<std::uint8_t>(i), 2);
    for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
         handled != kChannels && !limit.passed();)
        (void)ends.pair.receiver_context.lane().poll();
    const ConnectionCounts counts = counts_of(*ends.pair.receiver);
    ASSERT_EQ(counts.channel_count, telemetry::kMostChannels + 1);
    EXPECT_EQ(counts.channels[telemetry::kMostChannels].messages, 4U);
    EXPECT_EQ(counts.messages_received, kChannels);
}

TEST(TelemetryCounts, of_one_sided_operations_tell_kinds_and_bytes) {
    CountedPair ends;
    Connection &out = *ends.pair.sender, &in = *ends.pair.receiver;
    auto* const remote = static_cast<std::byte*>(in.arena().allocate(512, 64));
    auto* const local = static_cast<std::uint64_t*>(out.arena().allocate(512, 64));
    const Grant grant(in, {remote, 512},
                      Access::remote_read | Access::remote_write | Access::remote_atomic);
    const RemoteSpan<std::uint64_t> span(grant.extents()[0]);
    OneSided one_sided(out);
    Operation read, write, add;
    ASSERT_EQ(one_sided.try_read(span.subspan(0, 4), std::span(local, 4), read), Errc::ok);
    ASSERT_EQ(
        one_sided.try_write(std::span<const std::uint64_t>(local, 8), span.subspan(0, 8), write),
        Errc::ok);
    ASSERT_EQ(one_sided.try_fetch_add(span[0], 1, local, add), Errc::ok);
    PreparedRead<std::uint64_t> prepared(one_sided, span, std::span(local, 2));
    for (int i = 0; i < 5; ++i) ASSERT_EQ(prepared.execute(0), Errc::ok);
    for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
         out.try_flush() == Errc::would_block && !limit.passed();)
        (void)in.progress();
    const ConnectionCounts counts = counts_of(out);
    EXPECT_EQ(counts.reads, 6U);
    EXPECT_EQ(counts.writes, 1U);
    EXPECT_EQ(counts.atomics, 1U);
    EXPECT_EQ(counts.one_sided_bytes, 32U + 64 + 8 + 5 * 16);
}

TEST(TelemetryCounts, of_calls_that_find_no_room) {
    SegmentDirectory directory;
    Config config = directory.config();
    config.ring.bytes = 4096;
    CountedPair ends(config);
    std::uint64_t accepted = 0, refused = 0;
    while (refused < 3)
        (ends.pair.sender->try_send(1, zeros(500)) == Errc::ok ? accepted : refused) += 1;
    const ConnectionCounts counts = counts_of(*ends.pair.sender);
    EXPECT_EQ(counts.would_block, 3U);
    EXPECT_EQ(counts.messages_sent, accepted);
    EXPECT_GT(counts.ring_used, 0U);
    EXPECT_LE(counts.ring_used, counts.ring_bytes);
}

TEST(TelemetryCounts, are_in_the_segment_when_the_lane_sleeps) {
    CountedPair ends;
    for (int round = 1; round <= 3; ++round) {
        for (int i = 0; i < 10; ++i) ends.send(1, 6);
        ends.receive(10);
        ends.settle();
        const auto total = static_cast<std::uint64_t>(10 * round);
        const ConnectionCounts sent = ends.read(*ends.pair.sender),
                               received = ends.read(*ends.pair.receiver);
        EXPECT_EQ(sent.messages_sent, total);
        EXPECT_EQ(sent.bytes_sent, 6 * total);
        EXPECT_EQ(received.messages_received, total);
        EXPECT_EQ(sent.requests_posted, counts_of(*ends.pair.sender).requests_posted);
    }
}

TEST(TelemetryCounts, of_a_busy_lane_come_to_the_segment_without_a_sleep) {
    CountedPair ends;
    for (int i = 0; i < 10; ++i) ends.send(1, 6);
    std::uint64_t seen = 0;
    for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
         seen != 10 && !limit.passed();) {
        for (int i = 0; i < 1000; ++i) (void)ends.pair.sender_context.lane().poll();
        seen = ends.read(*ends.pair.sender).messages_sent;
    }
    EXPECT_EQ(seen, 10U);
}

TEST(TelemetryCounts, of_a_connection_that_ended_stay_with_its_lane) {
    CountedPair ends;
    for (int i = 0; i < 4; ++i) ends.send(1, 6);
    ends.receive(4);
    ends.pair.sender.reset();
    ends.pair.receiver.reset();
    ends.settle();
    std::uint64_t ended = 0, sent = 0, received = 0, connections = 0;
    for (const telemetry::Process& process : ends.SegmentDirectory::read()) {
        connections += process.connections.size();
        for (const telemetry::LaneCounts& lane : process.lanes) {
            ended += lane.ended;
            sent += lane.ended_messages_sent;
            received += lane.ended_messages_received;
        }
    }
    EXPECT_EQ(connections, 0U);
    EXPECT_EQ(ended, 2U);
    EXPECT_EQ(sent, 4U);
    EXPECT_EQ(received, 4U);
}

TEST(TelemetryCounts, tell_of_devices_arenas_and_transports) {
    CountedPair ends;
    void* const memory = ends.pair.sender->arena().allocate(4096, 64);
    ends.settle();
    for (const telemetry::Process& process : ends.SegmentDirectory::read()) {
        ASSERT_EQ(process.devices.size(), 1U);
        EXPECT_EQ(telemetry::text_of(process.devices[0].name),
                  ends.pair.sender_context.device().info().name);
        ASSERT_EQ(process.arenas.size(), 2U);
        EXPECT_EQ(telemetry::text_of(process.arenas[0].name), "arena");
        EXPECT_TRUE(process.runs);
        EXPECT_EQ(process.pid, static_cast<std::uint64_t>(getpid()));
    }
    const char* const port = std::getenv("VERBATIM_TEST_PORT");
    EXPECT_EQ(telemetry::text_of(counts_of(*ends.pair.sender).transport),
              port == nullptr ? "shm" : port);
    ends.pair.sender->arena().deallocate(memory, 4096, 64);
}

TEST(TelemetryCounts, are_told_by_a_connection_where_telemetry_is_off) {
    SegmentDirectory directory;
    Config config = directory.config();
    config.telemetry.enabled = false;
    CountedPair ends(config);
    ends.send(1, 6);
    EXPECT_EQ(counts_of(*ends.pair.sender).messages_sent, 1U);
    EXPECT_TRUE(telemetry::segments(directory.path()).empty());
}

TEST(TelemetryCounts, histograms_hold_handlers_and_operations) {
    SegmentDirectory directory;
    Config config = directory.config();
    config.telemetry.histograms = true;
    CountedPair ends(config);
    std::uint64_t handled = 0;
    ends.pair.receiver->on(7, [&](Message&) { ++handled; });
    for (std::uint64_t i = 1; i <= 200; ++i) {
        ends.send(7, 3);
        for (const Deadline limit = Deadline::after(std::chrono::seconds(30));
             handled != i && !limit.passed();) {
            (void)ends.pair.receiver_context.lane().poll();
            (void)ends.pair.sender_context.lane().poll();
        }
    }
    ends.settle();
    std::uint64_t calls = 0, operations = 0;
    for (const std::string& path : telemetry::segments(directory.path()))
        for (const auto& one : telemetry::read_segment(path).histograms)
            (one.channel == 7 ? calls : operations) += one.times.count();
    EXPECT_EQ(calls, 200U);
    EXPECT_GT(operations, 0U);
}

}  // namespace
}  // namespace verbatim
