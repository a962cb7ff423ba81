// The byte stream of a connection.
#include <verbatim/core/stream.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "../core_messages.hpp"

namespace verbatim::test {
namespace {

struct Streams : ConnectedPair {
    Streams() : ConnectedPair(small_config(), small_config()), from(*sender), to(*receiver) {}
    void poll() { (void)sender->progress(), (void)receiver->progress(); }
    // The outcome of a read, once there is one.
    Errc read(std::span<std::byte> into, std::size_t& bytes) {
        const Deadline deadline = soon();
        Errc error = Errc::would_block;
        while ((error = to.try_read(into, bytes)) == Errc::would_block && !deadline.passed())
            poll();
        return error;
    }
    Stream from, to;
};

std::byte byte_at(std::size_t position) { return static_cast<std::byte>(position * 7 >> 3); }

TEST(Stream, is_read_in_other_pieces_than_it_was_written) {
    Streams streams;
    std::mt19937 random(3);
    constexpr std::size_t kBytes = 3'000'000;
    std::vector<std::byte> out(70'000), in(70'000);
    std::size_t written = 0, read = 0;
    while (read < kBytes) {
        std::size_t piece = std::min<std::size_t>(1 + random() % out.size(), kBytes - written);
        for (std::size_t i = 0; i < piece; ++i) out[i] = byte_at(written + i);
        const Errc error = streams.from.try_write(std::span(out).first(piece), piece);
        ASSERT_TRUE(error == Errc::ok || error == Errc::would_block);
        written += piece;
        streams.poll();
        std::size_t got = 0;
        const Errc result = streams.to.try_read(std::span(in).first(1 + random() % in.size()), got);
        ASSERT_TRUE(result == Errc::ok || result == Errc::would_block);
        for (std::size_t i = 0; i < got; ++i) ASSERT_EQ(in[i], byte_at(read + i)) << read + i;
        read += got;
    }
    EXPECT_EQ(read, written);
}

TEST(Stream, takes_no_more_than_its_window_while_nobody_reads) {
    Streams streams;
    const std::vector<std::byte> bytes(Stream::kWindow * 2);
    std::size_t written = 0;
    const Deadline deadline = soon();
    for (std::size_t some = 0; written < Stream::kWindow && !deadline.passed(); written += some) {
        (void)streams.from.try_write(std::span(bytes).subspan(written), some);
        streams.poll();
    }
    EXPECT_EQ(written, Stream::kWindow);
    std::size_t some = 1;
    while (streams.to.readable() != Stream::kWindow && !deadline.passed()) streams.poll();
    EXPECT_EQ(streams.from.try_write(bytes, some), Errc::would_block);
    EXPECT_EQ(some, 0u);
    EXPECT_EQ(streams.to.readable(), Stream::kWindow);
    // Messages go on beside it.
    EXPECT_EQ(streams.sender->try_send(1, bytes_of("beside")), Errc::ok);
    EXPECT_EQ(text_of(streams.receiver->receive_message(soon())), "beside");
}

TEST(Stream, ends_where_it_was_finished_and_the_other_direction_goes_on) {
    Streams streams;
    std::array<std::byte, 100> in;
    std::size_t some = 0;
    ASSERT_EQ(streams.from.try_write(bytes_of("the last"), some), Errc::ok);
    ASSERT_EQ(streams.from.try_finish(), Errc::ok);
    EXPECT_EQ(streams.from.try_finish(), Errc::ok);
    EXPECT_EQ(streams.from.try_write(bytes_of("more"), some), Errc::invalid_argument);
    ASSERT_EQ(streams.read(in, some), Errc::ok);
    EXPECT_EQ(some, 8u);
    ASSERT_EQ(streams.read(in, some), Errc::ok);
    EXPECT_EQ(some, 0u) << "the end";
    ASSERT_EQ(streams.to.try_write(bytes_of("answer"), some), Errc::ok);
    const Deadline deadline = soon();
    while (streams.from.try_read(in, some) == Errc::would_block && !deadline.passed())
        streams.poll();
    EXPECT_EQ(some, 6u);
}

TEST(Stream, that_was_not_finished_ends_with_an_error_behind_the_last_byte) {
    Streams streams;
    std::array<std::byte, 100> in;
    std::size_t some = 0;
    ASSERT_EQ(streams.from.try_write(bytes_of("cut"), some), Errc::ok);
    std::thread closing([&] { streams.sender.reset(); });
    const Deadline deadline = soon();
    Errc error = Errc::ok;
    std::size_t all = 0;
    while ((error == Errc::ok || error == Errc::would_block) && !deadline.passed()) {
        (void)streams.receiver->progress();
        error = streams.to.try_read(in, some);
        all += some;
    }
    closing.join();
    EXPECT_EQ(all, 3u);
    EXPECT_EQ(error, Errc::peer_lost);
}

TEST(Stream, carries_bytes_between_threads_both_ways) {
    Streams streams;
    constexpr std::size_t kBytes = 4'000'000;
    const auto write_all = [](Stream& stream) {
        std::vector<std::byte> out(100'000);
        for (std::size_t at = 0; at < kBytes; at += out.size()) {
            for (std::size_t i = 0; i < out.size(); ++i) out[i] = byte_at(at + i);
            stream.write(out, soon());
        }
        stream.finish(soon());
    };
    const auto read_all = [](Stream& stream) {
        std::vector<std::byte> in(33'333);
        std::size_t at = 0, wrong = 0;
        for (std::size_t got = 1; got != 0; at += got) {
            got = stream.read(in, soon());
            for (std::size_t i = 0; i < got; ++i) wrong += in[i] != byte_at(at + i);
        }
        return wrong == 0 ? at : 0;
    };
    std::size_t there = 0;
    std::thread other([&] {
        there = read_all(streams.to);
        write_all(streams.to);
    });
    write_all(streams.from);
    EXPECT_EQ(read_all(streams.from), kBytes);
    other.join();
    EXPECT_EQ(there, kBytes);
}

}  // namespace
}  // namespace verbatim::test
