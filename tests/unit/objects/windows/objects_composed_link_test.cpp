// Composed messages with peers that do not keep to the protocol: windows at addresses of a
// receiver's choice, and messages of a sender whose bytes are not there as they must be.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core_fault.hpp"
#include "objects_hand_made.hpp"
#include "windows/objects_windows.hpp"

namespace verbatim::slips {

struct Slip {
    std::pmr::vector<std::uint64_t> numbers;
    Slip* self = nullptr;
};

}  // namespace verbatim::slips

VERBATIM_COMPOSED(verbatim::slips::Slip);

namespace verbatim::slips {
namespace {

using test::error_of;
using test::HandMadeSender;
using test::in_time;
using test::Pair;
using test::says;
namespace wire = objects::wire;

constexpr std::uint64_t kFirst = SetAside::kFirst, kEnd = SetAside::kEnd, kSlot = wire::kSlotBytes;

ComposedMessage<Slip> make_slip(Connection& connection, std::size_t count, std::uint64_t most) {
    auto message = compose<Slip>(connection, {.expected_bytes = most});
    message->numbers.assign(count, count);
    message->self = &*message;
    return message;
}

// It arrives as it lay.
void expect_to_arrive(Pair& pair, const ComposedMessage<Slip>& message) {
    ComposedSendOperation<Slip> sending(*pair.sender, message);
    ReceiveOperation<Slip> receiving(*pair.receiver);
    bool is_sent = false, is_received = false;
    for (const Deadline deadline = in_time(); !is_sent || !is_received;) {
        ASSERT_FALSE(deadline.passed());
        is_sent = is_sent || sending.step();
        is_received = is_received || receiving.step();
    }
    const auto got = receiving.take();
    EXPECT_TRUE(sending.report().composed);
    EXPECT_EQ(got->numbers, message.root().numbers);
    EXPECT_EQ(got->self, got.get());
}

std::uint64_t bytes_of(std::span<const RemoteExtent> extents) {
    std::uint64_t bytes = 0;
    for (const RemoteExtent& extent : extents) bytes += extent.bytes;
    return bytes;
}

// A receiver that lends by hand. Its real windows have gone back, and no message of the sender is
// of those that it lends here.
class Lending {
  public:
    Lending() {
        pair_.transfer(test::Numbers(test::kMany, 7));
        for (std::uint32_t window = 0; window < kMostWindows; ++window) take_back(window);
    }
    Pair& pair() { return pair_; }
    // As window 0. The sender knows of it then.
    void lend(std::span<const RemoteExtent> extents) {
        const wire::Lend head{0, static_cast<std::uint32_t>(bytes_of(extents) / kSlot),
                              static_cast<std::uint32_t>(extents.size()), 1};
        ASSERT_EQ(LayerChannel::try_send(*pair_.receiver, wire::kChannel, wire::bytes_of(head),
                                         std::as_bytes(extents), wire::kLend),
                  Errc::ok);
        wait_until(0, true);
    }
    void take_back(std::uint32_t window) {
        ASSERT_EQ(test::ask_back(*pair_.receiver, window, wire::kForGood), Errc::ok);
        wait_until(window, false);
    }

  private:
    static constexpr std::uint32_t kMostWindows = 8;

    void wait_until(std::uint32_t window, bool is_lent) {
        const auto link = objects::object_link(*pair_.sender);
        for (const Deadline deadline = in_time();
             link->outgoing().windows.is_lent(window) != is_lent;) {
            ASSERT_FALSE(deadline.passed()) << window;
            (void)readable(*pair_.sender);
            (void)readable(*pair_.receiver);
        }
    }

    Pair pair_;
};

struct Choice {
    const char* what;
    std::vector<RemoteExtent> extents;
};
RemoteExtent at(std::uint64_t address, std::uint64_t bytes = kSlot) {
    return {address, bytes, 7, 0};
}

TEST(Windows, at_addresses_of_the_receivers_choice_are_no_place_for_a_message) {
    const std::uint64_t good = kFirst + (std::uint64_t{1} << 30);
    static const std::uint64_t own[512]{};
    const Choice choices[] = {
        {"the first page of all", {at(0)}},
        {"memory of the program", {at(reinterpret_cast<std::uint64_t>(own) / 4096 * 4096)}},
        {"below those set aside", {at(kFirst - 4096)}},
        {"a slot below them", {at(kFirst - kSlot)}},
        {"at their end", {at(kEnd)}},
        {"past their end", {at(kEnd - 4096)}},
        {"the second slot past it", {at(kEnd - kSlot, 2 * kSlot)}},
        {"around the last address", {at(0 - kSlot / 2)}},
        {"within a page", {at(good + 8)}},
        {"slots apart", {at(good), at(good + 2 * kSlot)}},
        {"slots in the other order", {at(good + kSlot), at(good)}},
        {"one slot twice", {at(good), at(good)}},
        {"a slot in two pieces", {at(good, 4096), at(good + 8192, kSlot - 4096)}},
    };
    Lending lending;
    for (const Choice& choice : choices) {
        SCOPED_TRACE(choice.what);
        ASSERT_NO_FATAL_FAILURE(lending.lend(choice.extents));
        const auto message = make_slip(*lending.pair().sender, 10, bytes_of(choice.extents));
        EXPECT_EQ(message.place().address(), 0u);
        expect_to_arrive(lending.pair(), message);
        ASSERT_NO_FATAL_FAILURE(lending.take_back(0));
    }
    // So the above are refused for their addresses alone.
    for (const std::uint64_t address : {kFirst, good, kEnd - 2 * kSlot}) {
        const RemoteExtent pieces[] = {at(address, 4096), at(address + 4096, 2 * kSlot - 4096)};
        ASSERT_NO_FATAL_FAILURE(lending.lend(pieces));
        const objects::ComposePlace place(*lending.pair().sender, 2 * kSlot);
        EXPECT_EQ(place.address(), address);
        ASSERT_NO_FATAL_FAILURE(lending.take_back(0));
    }
}

// ---- a sender ----

// Memory of two slots is its own.
class Sender {
  public:
    explicit Sender(Pair& pair) : pair_(pair), peer_(*pair.sender) {
        EXPECT_EQ(peer_.layout<Slip>(), Errc::ok);
    }
    // A graph in bytes that were not written.
    void stream(std::uint64_t cursor, std::span<const wire::Binding> bindings) {
        const std::uint64_t type = HandMadeSender::fingerprint_of<Slip>();
        ASSERT_EQ(peer_.say(wire::kBegin, wire::Begin{++id_, type, 0, wire::kComposed, 0}),
                  Errc::ok);
        ASSERT_EQ(peer_.need(id_, 2), Errc::ok);
        for (const Deadline deadline = in_time(); peer_.lent().empty();) {
            ASSERT_FALSE(deadline.passed());
            (void)readable(*pair_.receiver);
        }
        wire::Fragment head{};
        head.id = id_;
        head.cursor = cursor;
        head.bindings = static_cast<std::uint32_t>(bindings.size());
        head.flags = wire::kLast;
        ASSERT_EQ(peer_.fragment(head, std::as_bytes(bindings)), Errc::ok);
    }
    template <class T>
    void send_whole() {
        const objects::Composition<Slip> composition(4096);
        composition.root().self = &composition.root();
        objects::ComposedTables tables;
        const auto bytes = composition.finish(tables);
        ASSERT_TRUE(bytes.has_value());
        wire::Eager head = HandMadeSender::eager_of<T>(++id_);
        head.image_bytes = static_cast<std::uint32_t>(bytes->memory.used);
        head.flags = wire::kComposed;
        ASSERT_EQ(peer_.say(wire::kEager, head, {bytes->memory.bytes, bytes->memory.used}),
                  Errc::ok);
    }

  private:
    Pair& pair_;
    HandMadeSender peer_;
    std::uint64_t id_ = 0;
};

// That graph is lost, and the next one arrives.
template <class T>
void expect_refusal(Pair& pair, Sender& sender, Errc code, const char* text) {
    const Error error = error_of([&] { (void)receive<T>(*pair.receiver, {in_time()}); });
    EXPECT_EQ(error.code(), code);
    EXPECT_TRUE(says(error, text));
    sender.send_whole<Slip>();
    const auto got = receive<Slip>(*pair.receiver, {in_time()});
    EXPECT_EQ(got->self, got.get());
}

TEST(ObjectLink, a_composed_message_in_pieces_costs_that_message_only) {
    Pair pair;
    Sender sender(pair);
    const wire::Binding pieces[] = {{0, 0, 1, 1}, {1, 0, 0, 1}};
    ASSERT_NO_FATAL_FAILURE(sender.stream(2 * kSlot, pieces));
    expect_refusal<Slip>(pair, sender, Errc::corrupt_message, "lies in pieces");
}

TEST(ObjectLink, a_composed_message_without_bytes_costs_that_message_only) {
    for (const bool has_slots : {false, true}) {
        Pair pair;
        Sender sender(pair);
        const wire::Binding bindings[] = {{0, 0, 0, 2}};
        ASSERT_NO_FATAL_FAILURE(sender.stream(0, std::span(bindings, has_slots ? 1 : 0)));
        expect_refusal<Slip>(pair, sender, Errc::corrupt_message, "has no bytes");
    }
}

TEST(ObjectLink, a_composed_message_of_a_type_that_is_not_composed_costs_that_message_only) {
    Pair pair;
    Sender sender(pair);
    sender.send_whole<test::Numbers>();
    expect_refusal<test::Numbers>(pair, sender, Errc::type_mismatch, "VERBATIM_COMPOSED");
}

}  // namespace
}  // namespace verbatim::slips
