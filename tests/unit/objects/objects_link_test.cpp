// What a receiver of graphs makes of a peer that does not keep to the protocol, or makes it keep
// more and more: an error that lasts, bounded memory, and never silence.
#include <gtest/gtest.h>
#include <malloc.h>

#include <string>
#include <vector>

#include "core_fault.hpp"
#include "object_link.hpp"
#include "objects_hand_made.hpp"
#include "sanitized.hpp"

namespace verbatim {
namespace {

using namespace std::chrono_literals;
using test::error_of;
using test::HandMadeSender;
using test::Pair;
using test::says;
using test::small_config;
namespace wire = objects::wire;
using Numbers = std::vector<int>;

Deadline soon() { return Deadline::after(30s); }

// Steps until the operation throws.
template <class Operation>
Error end_of(Operation& operation) {
    return error_of([&] {
        for (const Deadline deadline = soon(); !deadline.passed();)
            if (operation.step()) return;
    });
}

TEST(ObjectLink, says_again_what_a_peer_did_wrong_and_still_sees_it_die) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    ASSERT_EQ(peer.end(1), Errc::ok);  // of a graph that nobody announced
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error);
    const std::string text = "a message behind it";
    ASSERT_EQ(pair.sender->try_send(1, std::as_bytes(std::span(text))), Errc::ok);
    ASSERT_EQ(peer.cancel(1), Errc::ok);
    EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error) << "nothing is believed any more";
    pair.sender.reset();
    EXPECT_EQ(pair.receiver->receive_message(soon()).payload().size(), text.size());
    EXPECT_EQ(end_of(receiving).code(), Errc::peer_lost);
}

TEST(ObjectLink, moves_graphs_past_messages_that_are_held) {
    Pair pair;
    pair.sender->send_message(1, {}, {}, soon());
    const Message held = pair.receiver->receive_message(soon());
    const Numbers numbers{1, 2, 3};
    EXPECT_EQ(*pair.transfer(numbers), numbers);
}

// The writes of an image cannot be seen by the receiver.
TEST(ObjectLink, hears_of_its_peer_all_through_a_long_image) {
    Pair pair;
    const Numbers numbers(std::size_t{40} << 18);  // 40 MiB
    pair.transfer(numbers);
    EXPECT_GE(objects::object_link(*pair.receiver).activity(), 40u / 4);
}

// ---- what a peer can make this side keep ----

TEST(ObjectLink, takes_no_more_announcements_than_a_sender_may_make) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    ReceiveOperation<std::string> receiving(*pair.receiver);  // another type: nothing is granted
    Errc code = Errc::ok;
    std::uint64_t id = 0;
    for (; code == Errc::ok && id < 10'000; ++id) {
        if (peer.offer<Numbers>(HandMadeSender::offer_of<Numbers>(id + 1, 64)) != Errc::ok) break;
        try {
            receiving.step();
        } catch (const Error& error) {
            code = error.code();
        }
    }
    EXPECT_EQ(code, Errc::protocol_error);
    EXPECT_LE(id, wire::kMaxOffers + 1);
}

TEST(ObjectLink, takes_no_metadata_of_a_graph_that_no_memory_was_lent_for) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    wire::Offer offer = HandMadeSender::offer_of<Numbers>(1, std::uint64_t{1} << 40);
    offer.back_pointers = std::uint64_t{1} << 36;
    ASSERT_EQ(peer.offer<Numbers>(offer), Errc::ok);
    ASSERT_EQ(peer.layout<Numbers>(1), Errc::ok);
    ASSERT_EQ(peer.bytes(1, std::vector<std::byte>(4096)), Errc::ok);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error);
}

TEST(ObjectLink, forgets_the_oldest_of_many_layouts) {
    if (test::kSanitized)
        GTEST_SKIP() << "sanitizers have a heap of their own; runs in every other build";
    Pair pair;
    HandMadeSender peer(*pair.sender);
    ReceiveOperation<std::string> receiving(*pair.receiver);
    const std::vector<std::byte> part(std::size_t{16} << 10, std::byte{'x'});
    const std::size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    for (std::uint64_t id = 1; id <= 12; ++id) {
        wire::Offer offer = HandMadeSender::offer_of<Numbers>(id, 64);
        offer.fingerprint = id;
        offer.layout_bytes = wire::kMaxLayoutBytes;
        ASSERT_EQ(peer.offer<Numbers>(offer), Errc::ok);
        for (std::uint64_t told = 0; told < wire::kMaxLayoutBytes; told += part.size()) {
            ASSERT_EQ(peer.bytes(id, part), Errc::ok);
            if (told + part.size() < wire::kMaxLayoutBytes) receiving.step();
        }
        EXPECT_EQ(end_of(receiving).code(), Errc::type_mismatch);
        while (!peer.granted().empty()) {
        }
    }
    EXPECT_LT(mallinfo2().uordblks + mallinfo2().hblkhd, before + (std::size_t{8} << 20));
}

TEST(ObjectLink, takes_no_more_from_a_peer_that_takes_no_answers) {
    Config config = small_config();
    config.ring.bytes = 4096;
    Pair pair(config, config);
    HandMadeSender peer(*pair.sender);
    ReceiveOperation<std::string> receiving(*pair.receiver);
    const auto is_refused = [&] {
        try {
            receiving.step();
            return false;
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), Errc::type_mismatch) << error.what();
            return true;
        }
    };
    int refused = 0;
    for (std::uint64_t id = 1; id <= 1000; ++id) {
        wire::Offer offer = HandMadeSender::offer_of<Numbers>(id, 64);
        offer.layout_bytes = 0;
        ASSERT_EQ(peer.offer<Numbers>(offer), Errc::ok);
        if (!is_refused()) break;
        ++refused;
    }
    EXPECT_LT(refused, 200);
    Message answer;
    const Deadline deadline = soon();
    for (int answers = 0; answers <= refused;) {
        ASSERT_FALSE(deadline.passed());
        is_refused();  // the last offer, once there is room
        if (pair.sender->try_receive(answer) != Errc::ok) continue;
        ++answers;
    }
}

TEST(ObjectLink, keeps_so_many_messages_before_a_graph_and_then_asks_for_their_receipt) {
    Pair pair;
    const std::vector<std::byte> text(std::size_t{200} << 10);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    std::size_t sent = 0;
    std::optional<Error> told;
    while (!told && sent < 1000) {
        if (pair.sender->try_send(1, text) == Errc::ok) ++sent;
        try {
            receiving.step();
        } catch (const Error& error) {
            told = error;
        }
    }
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code(), Errc::out_of_memory);
    says(*told, "receive_message");
    for (std::size_t i = 0; i < sent; ++i) {
        EXPECT_EQ(pair.receiver->receive_message(soon()).payload().size(), text.size());
    }
    const Numbers numbers{4, 5};
    SendOperation<Numbers> sending(*pair.sender, numbers);
    bool is_sent = false, is_received = false;
    for (const Deadline deadline = soon(); !is_sent || !is_received;) {
        ASSERT_FALSE(deadline.passed());
        is_sent = is_sent || sending.step();
        is_received = is_received || receiving.step();
    }
    EXPECT_EQ(*receiving.take(), numbers);
}

}  // namespace
}  // namespace verbatim
