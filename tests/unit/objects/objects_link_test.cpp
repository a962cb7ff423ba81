// What a receiver of graphs makes of a peer that does not keep to the protocol, or makes it keep
// more and more: an error that lasts, bounded memory, and never silence.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core_fault.hpp"
#include "link/object_link.hpp"
#include "objects_hand_made.hpp"
#include "objects_pair.hpp"
#include "shapes/objects_shapes.hpp"

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

struct Plain {
    std::uint64_t a = 1, b = 2;
};
struct Chosen {
    bool flag = false;
    std::uint64_t value = 0;
};

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
    ASSERT_EQ(peer.cancel(1), Errc::ok);  // of a graph that nobody announced
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error);
    const std::string text = "a message behind it";
    ASSERT_EQ(pair.sender->try_send(1, std::as_bytes(std::span(text))), Errc::ok);
    ASSERT_EQ(peer.cancel(1), Errc::ok);
    EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error) << "nothing is believed any more";
    pair.sender.reset();
    EXPECT_EQ(pair.receiver->receive_message(soon()).payload().size(), text.size());
}

// Operations of before the end, and of after it.
TEST(ObjectLink, outlives_its_connection_while_operations_use_it) {
    Pair pair;
    const Numbers numbers{1, 2, 3};
    std::optional<SendOperation<Numbers>> early(std::in_place, *pair.sender, numbers), late;
    pair.receiver.reset();
    for (const Deadline deadline = soon(); pair.sender->progress() == Errc::ok;)
        ASSERT_FALSE(deadline.passed());
    early.reset();  // nobody else uses the link
    late.emplace(*pair.sender, numbers);
    early.emplace(*pair.sender, numbers);
    pair.sender.reset();
    EXPECT_EQ(end_of(*late).code(), Errc::peer_lost);
    late.reset();
    EXPECT_EQ(end_of(*early).code(), Errc::peer_lost);
}

TEST(ObjectLink, moves_graphs_past_messages_that_are_held) {
    Pair pair;
    pair.sender->send_message(1, {}, {}, soon());
    const Message held = pair.receiver->receive_message(soon());
    const Numbers numbers{1, 2, 3};
    EXPECT_EQ(*pair.transfer(numbers), numbers);
}

TEST(ObjectLink, takes_a_graph_made_by_hand) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    ASSERT_EQ(peer.layout<Plain>(), Errc::ok);
    ASSERT_EQ(peer.eager(HandMadeSender::eager_of<Plain>(1), Plain{3, 4}), Errc::ok);
    EXPECT_EQ(receive<Plain>(*pair.receiver, {soon()})->b, 4u);
}

// The class is said in the pointer's field.
struct Holder {
    std::uint64_t before = 0;
    std::uint64_t shape = 0;
};
struct Held {
    std::uint64_t before = 0;
    shapes::Shape* shape = nullptr;
};
struct HeldImage {
    Holder root;
    std::uint64_t table = 0;
    int id = 5, radius = 6;
};

TEST(ObjectLink, a_class_that_is_not_known_here_costs_its_graphs_only) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    const auto tell = [&](std::uint32_t number, std::uint64_t fingerprint, std::string name,
                          const std::string& file = {}) {
        const wire::Class head{fingerprint, number, static_cast<std::uint16_t>(name.size()),
                               static_cast<std::uint16_t>(file.size())};
        name += file;
        return peer.say(wire::kClass, head, std::as_bytes(std::span(name)));
    };
    ASSERT_EQ(tell(1, 77, "elsewhere::Square", "square.hpp"), Errc::ok);
    ASSERT_EQ(tell(2, HandMadeSender::fingerprint_of<shapes::Circle>(), "shapes::Circle"),
              Errc::ok);
    wire::Eager head = HandMadeSender::eager_of<Held>(1);
    head.image_bytes = sizeof(HeldImage);
    head.steps = 1;
    head.references = 2;
    HeldImage image;
    image.root.shape = objects::kClassBit | 1;
    ASSERT_EQ(peer.eager(head, image), Errc::ok);
    image.root.shape = objects::kClassBit | 2;
    ++head.id;
    ASSERT_EQ(peer.eager(head, image), Errc::ok);
    const Error error = error_of([&] { (void)receive<Held>(*pair.receiver, {soon()}); });
    EXPECT_EQ(error.code(), Errc::type_mismatch);
    EXPECT_TRUE(says(error, "class elsewhere::Square")) << error.what();
    EXPECT_TRUE(says(error,
                     "include the header that describes it (in the sending program: "
                     "square.hpp)"))
        << error.what();
    EXPECT_EQ(receive<Held>(*pair.receiver, {soon()})->shape->tell(), "circle 6");
}

TEST(ObjectLink, a_value_that_is_none_costs_that_graph_only) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    Chosen wrong;
    std::memset(static_cast<void*>(&wrong.flag), 2, 1);
    wire::Eager head = HandMadeSender::eager_of<Chosen>(1);
    ASSERT_EQ(peer.eager(head, wrong), Errc::ok);
    ASSERT_EQ(peer.eager(HandMadeSender::eager_of<Chosen>(2), Chosen{true, 5}), Errc::ok);
    EXPECT_EQ(error_of([&] { receive<Chosen>(*pair.receiver, {soon()}); }).code(),
              Errc::corrupt_message);
    EXPECT_EQ(receive<Chosen>(*pair.receiver, {soon()})->value, 5u);
}

// ---- a peer that was built from other definitions ----

namespace older {
struct Plain {
    std::uint64_t a = 1;
    std::uint32_t b = 2;
};
}  // namespace older

TEST(ObjectLink, an_older_layout_of_the_same_type_costs_that_graph_and_its_field_is_told) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    std::string text = objects::layout_of(objects::type_info<older::Plain>()).text;
    for (std::size_t at = 0; (at = text.find("older::")) != std::string::npos;) text.erase(at, 7);
    const std::uint64_t fingerprint = HandMadeSender::fingerprint_of<older::Plain>();
    const wire::LayoutPart part{fingerprint, static_cast<std::uint32_t>(text.size()), 0};
    ASSERT_EQ(peer.say(wire::kLayout, part, std::as_bytes(std::span(text))), Errc::ok);
    ASSERT_EQ(peer.eager(HandMadeSender::eager_of<older::Plain>(1), older::Plain{}), Errc::ok);
    ASSERT_EQ(peer.eager(HandMadeSender::eager_of<Plain>(2), Plain{5, 6}), Errc::ok);
    const Error error = error_of([&] { receive<Plain>(*pair.receiver, {soon()}); });
    EXPECT_EQ(error.code(), Errc::type_mismatch);
    says(error, "lay it out differently");
    says(error, "field 1");
    EXPECT_EQ(receive<Plain>(*pair.receiver, {soon()})->b, 6u);
}

using Send = std::function<void(HandMadeSender&)>;

// Graphs and fragments that contradict the protocol.
std::vector<Send> wrong_graphs() {
    const wire::Eager eager = HandMadeSender::eager_of<Plain>(1);
    const auto eager_with = [&](auto change) {
        return Send([eager, change](HandMadeSender& peer) {
            wire::Eager head = eager;
            change(head);
            (void)peer.eager(head, Plain{});
        });
    };
    const auto fragment_with = [](auto change) {
        return Send([change](HandMadeSender& peer) {
            (void)peer.begin<Plain>(1);
            wire::Fragment head{};
            head.id = 1;
            change(head);
            (void)peer.fragment(head);
        });
    };
    return {eager_with([](wire::Eager& head) { head.id = 2; }),
            eager_with([](wire::Eager& head) { head.image_bytes = 0; }),
            eager_with([](wire::Eager& head) { head.image_bytes += 1; }),
            eager_with([](wire::Eager& head) { head.image_bytes = ~0u; }),
            eager_with([](wire::Eager& head) { head.places = ~0u; }),
            eager_with([](wire::Eager& head) { head.arrays = 1; }),
            fragment_with([](wire::Fragment& head) { head.id = 2; }),
            fragment_with([](wire::Fragment& head) { head.cursor = 1; }),
            fragment_with([](wire::Fragment& head) { head.bindings = 1; }),
            fragment_with([](wire::Fragment& head) { head.places = ~0u; }),
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                wire::Fragment head{};
                head.id = 1;
                head.bindings = 1;
                (void)peer.fragment(head, wire::bytes_of(wire::Binding{0, 0, 0, 1}));
            },
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                wire::Fragment head{};
                head.id = 1;
                head.places = 2;
                const objects::PlaceRecord records[2]{};
                (void)peer.fragment(head, std::as_bytes(std::span(records)));
            },
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                wire::Fragment head{};
                head.id = 1;
                head.amendments = 1;
                (void)peer.fragment(head, wire::bytes_of(wire::Amendment{0, 8, {}}));
            }};
}

// Other messages that do.
std::vector<Send> wrong_messages() {
    return {[](HandMadeSender& peer) { (void)peer.begin<Plain>(5); },
            [](HandMadeSender& peer) { (void)peer.need(1, 1); },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kClass, wire::Class{1, 2, 0, 0});
            },
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                (void)peer.need(1, 0);
            },
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                (void)peer.say(wire::kNeed, wire::Need{1, 2, 0, 1, 0});
            },
            [](HandMadeSender& peer) {
                (void)peer.begin<Plain>(1);
                (void)peer.say(wire::kNeed, wire::Need{1, 1, 0, 1, 1});
            },
            [](HandMadeSender& peer) { (void)peer.say(wire::kRestart, wire::GraphId{1}); },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kReturn, wire::Return{3, 0, 0, 0});
            },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kFree, wire::SlotRange{0, 0, 1, 0});
            },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kLend, wire::Lend{0, 1, 1, 1});
            },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kLend, wire::Lend{9, ~0u, 0, 1});
            },
            [](HandMadeSender& peer) { (void)peer.say(15, wire::GraphId{1}); },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kLayout, wire::LayoutPart{1, ~0u, 0}, wire::bytes_of(Plain{}));
            },
            [](HandMadeSender& peer) {
                (void)peer.say(wire::kLayout, wire::LayoutPart{1, 100, 8}, wire::bytes_of(Plain{}));
            },
            [](HandMadeSender& peer) { (void)peer.say(wire::kBegin, std::uint8_t{1}); }};
}

// Each of these must end the link, and crash nothing.
TEST(ObjectLink, refuses_messages_that_contradict_the_protocol) {
    std::vector<Send> cases = wrong_graphs();
    for (const Send& more : wrong_messages()) cases.push_back(more);
    Config config = small_config();
    for (ArenaOptions* arena : {&config.arena, &config.receive_arena})
        arena->max_bytes = std::size_t{16} << 20;
    for (std::size_t i = 0; i < cases.size(); ++i) {
        Pair pair(config, config);
        HandMadeSender peer(*pair.sender);
        cases[i](peer);
        ReceiveOperation<Numbers> receiving(*pair.receiver);
        EXPECT_EQ(end_of(receiving).code(), Errc::protocol_error) << i;
        EXPECT_EQ(error_of([&] { send(*pair.receiver, Numbers(100'000), {soon()}); }).code(),
                  Errc::protocol_error)
            << i;
    }
}

// ---- what an operation leaves that ends early, or takes long ----

TEST(ObjectLink, a_type_with_too_long_a_layout_is_refused_and_takes_no_number) {
    Pair pair;
    const Plain plain;
    const objects::Layout layout{std::string(std::size_t{2} << 20, 'x'), 1};
    const objects::RootType root{objects::type_info<Plain>(), layout, alignof(Plain)};
    {
        const objects::PackLease lease(*pair.sender);
        objects::Packer<Plain> packer(*lease, plain, objects::pack_options(*pair.sender, false));
        objects::Outbound sending(lease.link(), packer, root, {});
        EXPECT_EQ(end_of(sending).code(), Errc::unsupported);
    }
    const Numbers numbers{1, 2};
    EXPECT_EQ(*pair.transfer(numbers), numbers);
}

// Its receiver sees no write: it is told now and then that the sender is at it.
TEST(ObjectLink, a_long_write_of_one_object_says_that_the_sender_lives) {
    Pair pair;
    const Numbers numbers(std::size_t{8} << 20);  // 32 MiB
    SendOperation<Numbers> sending(*pair.sender, numbers);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    const auto activity = [&] { return objects::object_link(*pair.receiver)->activity(); };
    const Deadline deadline = soon();
    for (bool is_sent = false, is_received = false; !is_received;) {
        ASSERT_FALSE(deadline.passed());
        is_sent = is_sent || sending.step();
        is_received = receiving.step();
    }
    const std::uint64_t others = 4;  // layout, begin, need, the only fragment
    EXPECT_GE(activity(), others + 32u * 1024 * 1024 / wire::kSignOfLifeBytes);
}

// ---- what a peer can make this side keep ----

TEST(ObjectLink, keeps_layouts_up_to_a_bound_and_drops_the_oldest) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    const std::vector<std::byte> text(std::size_t{16} << 10, std::byte{'x'});
    auto& incoming = objects::object_link(*pair.receiver)->incoming();
    for (std::uint64_t type = 1; type <= 8; ++type)
        for (std::uint32_t at = 0; at < wire::kMaxLayoutBytes;) {
            const wire::LayoutPart head{type, wire::kMaxLayoutBytes, at};
            if (peer.say(wire::kLayout, head, text) == Errc::ok)
                at += static_cast<std::uint32_t>(text.size());
            (void)readable(*pair.receiver);
        }
    std::size_t bytes = 0;
    for (std::uint64_t type = 1; type <= 8; ++type) bytes += incoming.types().layout(type).size();
    EXPECT_EQ(bytes, objects::ToldLayouts::kMostBytes);
    EXPECT_TRUE(incoming.types().layout(1).empty());
    EXPECT_EQ(incoming.types().layout(8).size(), wire::kMaxLayoutBytes);
}

TEST(ObjectLink, takes_no_more_beginnings_than_a_sender_may_make) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    ReceiveOperation<Numbers> receiving(*pair.receiver);
    Errc code = Errc::ok;
    std::uint64_t id = 0;
    for (; code == Errc::ok && id < 10'000; ++id) {
        ASSERT_EQ(peer.begin<Numbers>(id + 1), Errc::ok);
        try {
            receiving.step();
        } catch (const Error& error) {
            code = error.code();
        }
    }
    EXPECT_EQ(code, Errc::protocol_error);
    EXPECT_EQ(id, wire::kMaxOpen + 1);
}

TEST(ObjectLink, leaves_graphs_that_nobody_receives_in_the_ring_beyond_a_bound) {
    Pair pair;
    HandMadeSender peer(*pair.sender);
    std::uint64_t sent = 0;
    for (bool is_full = false; !is_full && sent < 1'000'000;) {
        is_full = peer.eager(HandMadeSender::eager_of<Plain>(sent + 1), Plain{sent, 0}) != Errc::ok;
        if (!is_full) ++sent;
        (void)readable(*pair.receiver, 9);
    }
    EXPECT_GE(sent, wire::kMaxWaiting);
    EXPECT_LT(sent, 100'000u);
    EXPECT_EQ(objects::object_link(*pair.receiver)->incoming().arrivals().waiting(),
              wire::kMaxWaiting);
    for (std::uint64_t i = 0; i < sent; ++i)
        ASSERT_EQ(receive<Plain>(*pair.receiver, {soon()})->a, i);
}

TEST(ObjectLink, a_peer_that_ignores_a_refusal_gets_its_slots_back_and_nothing_is_kept) {
    Config config = small_config();
    config.objects.max_graph_bytes = std::size_t{512} << 10;
    Pair pair(small_config(), config);
    HandMadeSender peer(*pair.sender);
    ASSERT_EQ(peer.begin<Plain>(1), Errc::ok);
    ASSERT_EQ(peer.need(1, 1), Errc::ok);
    for (const Deadline deadline = soon(); peer.lent().empty();) {
        ASSERT_FALSE(deadline.passed());
        (void)readable(*pair.receiver);
    }
    ASSERT_EQ(peer.need(1, 100, 1), Errc::ok);  // too much: it is refused
    for (std::uint32_t i = 0; i < 20; ++i) {
        (void)readable(*pair.receiver);
        wire::Fragment head{};
        head.id = 1;
        head.bindings = 1;
        ASSERT_EQ(peer.fragment(head, wire::bytes_of(wire::Binding{i, 0, 0, 1})), Errc::ok);
        (void)readable(*pair.receiver);
    }
    EXPECT_EQ(error_of([&] { receive<Plain>(*pair.receiver, {soon()}); }).code(),
              Errc::graph_too_large);
    ASSERT_EQ(peer.cancel(1), Errc::ok);
    ASSERT_EQ(peer.eager(HandMadeSender::eager_of<Plain>(2), Plain{7, 0}), Errc::ok);
    EXPECT_EQ(receive<Plain>(*pair.receiver, {soon()})->a, 7u);
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
