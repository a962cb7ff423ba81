// Proofs and seals as bytes: two provers meet, and each change of what they say is noticed.
#include <gtest/gtest.h>

#include <vector>

#include "bootstrap/proof.hpp"

namespace verbatim {
namespace {

using Role = Prover::Role;
using Bytes = std::vector<std::byte>;

std::shared_ptr<const SecretKey> key_of(int seed) {
    SecretKey::Code bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(i * 5 + static_cast<std::size_t>(seed));
    return std::make_shared<const SecretKey>(bytes);
}

template <class Call>
Errc code_of(Call&& call) {
    try {
        (void)call();
    } catch (const Error& error) {
        return error.code();
    }
    return Errc::ok;
}

struct Two {
    explicit Two(int caller_key = 1, int listener_key = 1)
        : caller(key_of(caller_key), Role::caller),
          listener(key_of(listener_key), Role::listener) {}
    Prover caller, listener;
};

TEST(Proofs, of_the_same_key_are_taken_by_both_and_give_one_key_for_each_direction) {
    Two two;
    const Bytes answer = two.listener.hear(two.caller.begin(), "test");
    EXPECT_FALSE(two.listener.is_over()) << "the caller has proven nothing yet";
    const Bytes conclusion = two.caller.hear(answer, "test");
    EXPECT_TRUE(two.caller.is_over());
    EXPECT_TRUE(two.listener.hear(conclusion, "test").empty());
    EXPECT_TRUE(two.listener.is_over());
    const auto callers = two.caller.seals(), listeners = two.listener.seals();
    const Bytes text(100);
    EXPECT_EQ(callers->outgoing.next(text), listeners->incoming.next(text));
    EXPECT_EQ(callers->incoming.next(text), listeners->outgoing.next(text));
    EXPECT_NE(callers->outgoing.next(text), callers->incoming.next(text));
}

TEST(Proofs, of_another_key_are_refused_by_the_caller_first) {
    Two two(1, 2);
    const Bytes answer = two.listener.hear(two.caller.begin(), "test");
    EXPECT_EQ(code_of([&] { return two.caller.hear(answer, "test"); }), Errc::permission_denied);
    EXPECT_FALSE(two.caller.is_over());
}

TEST(Proofs, change_with_every_connection) {
    Two one, other;
    EXPECT_NE(one.caller.begin(), other.caller.begin());
    // The same challenge, said again.
    const Bytes challenge = one.caller.begin();
    EXPECT_NE(one.listener.hear(challenge, "test"), other.listener.hear(challenge, "test"));
}

// Each bit of the proofs counts.
TEST(Proofs, that_were_changed_on_their_way_are_refused) {
    const std::size_t challenge_bytes = Two().caller.begin().size();
    for (std::size_t bit = 0; bit < challenge_bytes * 8; ++bit) {
        Two two;
        Bytes challenge = two.caller.begin();
        challenge[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        EXPECT_NE(
            code_of([&] { return two.caller.hear(two.listener.hear(challenge, "test"), "test"); }),
            Errc::ok)
            << bit;
    }
    for (std::size_t at = 0; at < 2 * 4 + 2 * 32; ++at) {
        Two two;
        Bytes answer = two.listener.hear(two.caller.begin(), "test");
        answer[at] ^= std::byte{0x10};
        EXPECT_NE(code_of([&] { return two.caller.hear(answer, "test"); }), Errc::ok) << at;
    }
    for (std::size_t at = 0; at < 2 * 4 + 32; ++at) {
        Two two;
        Bytes conclusion = two.caller.hear(two.listener.hear(two.caller.begin(), "test"), "test");
        conclusion[at] ^= std::byte{0x80};
        EXPECT_NE(code_of([&] { return two.listener.hear(conclusion, "test"); }), Errc::ok) << at;
        EXPECT_FALSE(two.listener.is_over());
    }
}

TEST(Proofs, of_ones_own_are_no_answers) {
    Two two;
    const Bytes challenge = two.caller.begin();
    EXPECT_EQ(code_of([&] { return two.caller.hear(challenge, "test"); }), Errc::protocol_error);
    // The listener's code, sent back as the caller's.
    Proof answer = parse_proof(two.listener.hear(challenge, "test"), "test");
    const Bytes sent_back = encode_proof({Proof::Step::conclusion, {}, answer.code});
    EXPECT_EQ(code_of([&] { return two.listener.hear(sent_back, "test"); }),
              Errc::permission_denied);
    // The caller's own nonce as the listener's, without a code that fits.
    Two other;
    const Proof said = parse_proof(other.caller.begin(), "test");
    const Bytes mirrored = encode_proof({Proof::Step::answer, said.nonce, {}});
    EXPECT_EQ(code_of([&] { return other.caller.hear(mirrored, "test"); }),
              Errc::permission_denied);
}

TEST(Proofs, out_of_turn_are_refused) {
    Two two;
    const Bytes challenge = two.caller.begin(), answer = two.listener.hear(challenge, "test"),
                conclusion = two.caller.hear(answer, "test");
    EXPECT_EQ(code_of([&] { return two.listener.hear(challenge, "test"); }), Errc::protocol_error);
    EXPECT_EQ(code_of([&] { return two.caller.hear(answer, "test"); }), Errc::protocol_error);
    (void)two.listener.hear(conclusion, "test");
    EXPECT_EQ(code_of([&] { return two.listener.hear(conclusion, "test"); }), Errc::protocol_error);
    Two early;
    EXPECT_EQ(code_of([&] { return early.listener.hear(conclusion, "test"); }),
              Errc::protocol_error);
}

TEST(Proofs, of_another_length_or_scheme_are_refused) {
    for (const auto step : {Proof::Step::challenge, Proof::Step::answer, Proof::Step::conclusion}) {
        const Bytes whole = encode_proof({step});
        (void)parse_proof(whole, "test");
        for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
            EXPECT_EQ(code_of([&] { return parse_proof(std::span(whole).first(bytes), "test"); }),
                      Errc::protocol_error);
        Bytes longer = whole;
        longer.push_back({});
        EXPECT_EQ(code_of([&] { return parse_proof(longer, "test"); }), Errc::protocol_error);
        Bytes newer = whole;
        newer[4] = std::byte{2};
        EXPECT_EQ(code_of([&] { return parse_proof(newer, "test"); }), Errc::unsupported);
    }
}

TEST(Seal, fits_one_frame_in_one_place) {
    const auto key = key_of(3)->code_of("test", {});
    Seal sending(key);
    std::vector<Bytes> frames;
    for (std::size_t i = 0; i < 3; ++i) {
        Bytes frame(40 + i);
        const auto code = sending.next(frame);
        frame.insert(frame.end(), code.begin(), code.end());
        frames.push_back(std::move(frame));
    }
    Seal good(key), skips(key), repeats(key);
    for (const Bytes& frame : frames) EXPECT_TRUE(good.check_next(frame));
    EXPECT_FALSE(skips.check_next(frames[1]));
    EXPECT_TRUE(repeats.check_next(frames[0]));
    EXPECT_FALSE(repeats.check_next(frames[0]));
    for (std::size_t at = 0; at < frames[0].size(); ++at) {
        Seal receiving(key);
        Bytes changed = frames[0];
        changed[at] ^= std::byte{1};
        EXPECT_FALSE(receiving.check_next(changed)) << at;
    }
    Seal receiving(key);
    EXPECT_FALSE(receiving.check_next(std::span(frames[0]).first(31)));
}

}  // namespace
}  // namespace verbatim
