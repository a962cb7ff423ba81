// The hello's bytes: round trips, every truncation, every changed byte, every way to cut the
// stream.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "bootstrap/hello.hpp"
#include "bootstrap/side_channel.hpp"

namespace verbatim {
namespace {

Hello example() {
    Hello hello;
    hello.queue_pair.kind = 1;  // the software NIC
    hello.queue_pair.number = 0x123456;
    hello.queue_pair.packet_sequence = 77;
    hello.queue_pair.reads_answered = 4;
    hello.ring_address = 0x7f00'1122'3344'5000u;
    hello.ring_bytes = 1 << 20;
    hello.credit_address = 0x7f00'1122'3344'4000u;
    hello.armed_address = 0x7f00'1122'3344'4040u;
    hello.posted.address = 0x7f00'1122'3344'8000u;
    hello.ring_key = hello.words_key = 0x1234;
    hello.posted.key = 0x5678;
    hello.note = {0x7f00'1122'3344'a008u, 0x9abc};
    hello.tag_key = 0xfeed'beef'0011'2233u;
    hello.user = 1000;
    hello.process = 4711;
    hello.device_name = "softnic";
    hello.said.longest_message = 123456;
    return hello;
}

// What parsing does; anything else than an Error or a value fails the test by itself.
template <class Parse>
Errc code_of(Parse&& parse) {
    try {
        parse();
        return Errc::ok;
    } catch (const Error& error) {
        EXPECT_FALSE(error.cause().empty());
        return error.code();
    }
}

bool is_refusal(Errc code) {
    return code == Errc::protocol_error || code == Errc::unsupported ||
           code == Errc::version_mismatch;
}

TEST(Hello, comes_back_as_it_was) {
    const Hello sent = example(), got = parse_hello(encode_hello(sent));
    EXPECT_EQ(encode_hello(got), encode_hello(sent));
    EXPECT_EQ(got.ring_address, sent.ring_address);
    EXPECT_EQ(got.tag_key, sent.tag_key);
    EXPECT_EQ(got.process, sent.process);
    EXPECT_EQ(got.device_name, sent.device_name);
    EXPECT_EQ(got.said.longest_message, sent.said.longest_message);
    EXPECT_EQ(got.queue_pair.number, sent.queue_pair.number);
    EXPECT_EQ(got.queue_pair.packet_sequence, sent.queue_pair.packet_sequence);
    EXPECT_EQ(got.queue_pair.reads_answered, sent.queue_pair.reads_answered);
}

TEST(Hello, says_where_streams_arrive) {
    Hello sent = example();
    sent.queue_pair.ports = 3;
    sent.queue_pair.stream_port = 4711;
    sent.queue_pair.packet_port = 4712;
    sent.queue_pair.home.user = 1000;
    sent.queue_pair.home.host.fill(1);
    sent.queue_pair.stream_address.fill(2);
    sent.queue_pair.stream_token.fill(3);
    const Hello got = parse_hello(encode_hello(sent));
    EXPECT_EQ(encode_hello(got), encode_hello(sent));
    EXPECT_EQ(got.queue_pair.ports, 3);
    EXPECT_EQ(got.queue_pair.stream_port, 4711);
    EXPECT_EQ(got.queue_pair.packet_port, 4712);
    EXPECT_EQ(got.queue_pair.home.user, 1000u);
    EXPECT_EQ(got.queue_pair.home.host, sent.queue_pair.home.host);
    EXPECT_EQ(got.queue_pair.stream_address, sent.queue_pair.stream_address);
    EXPECT_EQ(got.queue_pair.stream_token, sent.queue_pair.stream_token);
    EXPECT_EQ(parse_hello(encode_hello(example())).queue_pair.ports, 0) << "none is no extension";
}

TEST(Hello, every_truncation_is_refused) {
    const auto whole = encode_hello(example());
    std::size_t accepted = 0;
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const Errc code = code_of([&] { parse_hello(std::span(whole).first(length)); });
        // Extensions are optional: a hello that ends before them is whole.
        accepted += code == Errc::ok ? 1u : 0u;
        EXPECT_TRUE(code == Errc::ok || is_refusal(code)) << length;
    }
    EXPECT_LE(accepted, 2u);
}

TEST(Hello, every_changed_byte_is_refused_or_means_something_else) {
    const auto whole = encode_hello(example());
    for (std::size_t at = 0; at < whole.size(); ++at)
        for (unsigned value = 0; value < 256; ++value) {
            auto changed = whole;
            changed[at] = static_cast<std::byte>(value);
            const Errc code = code_of([&] {
                const Hello hello = parse_hello(changed);
                EXPECT_LE(hello.device_name.size(), 64u);
                (void)encode_hello(hello);
            });
            ASSERT_TRUE(code == Errc::ok || is_refusal(code)) << at << " " << value;
        }
}

TEST(Hello, many_changed_bytes_do_no_harm) {
    const auto whole = encode_hello(example());
    std::mt19937_64 random(11);
    for (int round = 0; round < 20000; ++round) {
        auto changed = whole;
        for (std::uint64_t i = 0, n = 1 + random() % 8; i < n; ++i)
            changed[random() % changed.size()] = static_cast<std::byte>(random());
        changed.resize(random() % (changed.size() + 40));
        const Errc code = code_of([&] { parse_hello(changed); });
        ASSERT_TRUE(code == Errc::ok || is_refusal(code));
    }
}

TEST(Hello, incompatible_sides_are_told_what_differs) {
    const Hello mine = example();
    const auto refusal_of = [&](auto change) {
        Hello peer = mine;
        change(peer);
        try {
            check_compatible(mine, peer, "peer");
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::unsupported);
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_EQ(refusal_of([](Hello&) {}), "");
    EXPECT_NE(refusal_of([](Hello& h) { h.pointer_bytes = 4; }), "");
    EXPECT_NE(refusal_of([](Hello& h) { h.ring_format = 3; }), "");
    EXPECT_NE(refusal_of([](Hello& h) { h.required_features = 1; }), "");
}

TEST(FrameReader, puts_frames_together_wherever_the_stream_is_cut) {
    const auto hello = encode_frame(FrameType::hello, encode_hello(example()));
    const auto bye = encode_frame(FrameType::bye, encode_bye({1234, 5678}));
    std::vector<std::byte> stream = hello;
    stream.insert(stream.end(), bye.begin(), bye.end());
    for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
        FrameReader reader;
        std::vector<Frame> frames;
        for (const auto piece : {std::span(stream).first(cut), std::span(stream).subspan(cut)}) {
            reader.feed(piece, "test");
            while (auto frame = reader.next("test")) frames.push_back(std::move(*frame));
        }
        ASSERT_EQ(frames.size(), 2u) << cut;
        EXPECT_EQ(frames[0].type, FrameType::hello);
        EXPECT_EQ(encode_hello(parse_hello(frames[0].body)), encode_hello(example()));
        EXPECT_EQ(frames[1].type, FrameType::bye);
        EXPECT_EQ(parse_bye(frames[1].body, "test").sent_position, 1234u);
        EXPECT_EQ(parse_bye(frames[1].body, "test").taken_position, 5678u);
    }
}

TEST(FrameReader, refuses_what_is_no_frame_at_its_first_wrong_byte) {
    const auto frame = encode_frame(FrameType::hello, encode_hello(example()));
    for (std::size_t at = 0; at < 8; ++at) {  // the magic
        auto changed = frame;
        changed[at] ^= std::byte{1};
        FrameReader reader;
        EXPECT_EQ(code_of([&] { reader.feed(std::span(changed).first(at + 1), "test"); }),
                  Errc::protocol_error);
    }
}

TEST(FrameReader, refuses_bodies_longer_than_any_frame) {
    auto frame = encode_frame(FrameType::hello, {});
    for (std::size_t at = FrameHeader::kBytes - 8; at < FrameHeader::kBytes - 4; ++at)
        frame[at] = std::byte{0xff};  // the length
    FrameReader reader;
    EXPECT_EQ(code_of([&] {
                  reader.feed(frame, "test");
                  (void)reader.next("test");
              }),
              Errc::protocol_error);
}

TEST(Refusal, is_one_even_if_its_bytes_are_broken) {
    const auto whole = encode_refusal({Errc::permission_denied, "the peer runs as uid 7"});
    const Refusal refusal = parse_refusal(whole);
    EXPECT_EQ(refusal.code, Errc::permission_denied);
    EXPECT_EQ(refusal.text, "the peer runs as uid 7");
    std::mt19937_64 random(5);
    for (int round = 0; round < 5000; ++round) {
        auto changed = whole;
        changed[random() % changed.size()] = static_cast<std::byte>(random());
        changed.resize(random() % (changed.size() + 1));
        const Refusal broken = parse_refusal(changed);
        EXPECT_NE(broken.code, Errc::ok);
        EXPECT_LE(broken.text.size(), 512u);
    }
}

TEST(Printable, shows_no_control_characters) {
    const std::string text = "GET / \x1b[31m\x07\xff";
    const std::string shown = printable(std::as_bytes(std::span(text)), 64);
    EXPECT_TRUE(std::all_of(shown.begin(), shown.end(), [](char c) { return c >= 32 && c < 127; }));
    EXPECT_LE(printable(std::as_bytes(std::span(text)), 4).size(), 8u);
}

}  // namespace
}  // namespace verbatim
