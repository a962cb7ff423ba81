// A peer that writes into a slot after it has given it up. With [objects] hostile the receiver has
// the bytes that it checked.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "core_fault.hpp"
#include "objects_hand_made.hpp"
#include "windows/objects_windows.hpp"

namespace verbatim::hostile {

// Two halves that must be equal, where the walk looks at them.
struct Account {
    std::array<std::uint64_t, 4> amounts{}, again{};
};
std::function<void()> at_check;
bool is_balanced(const Account& account) {
    if (at_check) at_check();
    return account.amounts == account.again;
}
VERBATIM_VALIDATE(Account, is_balanced)

namespace {

using test::HandMadeSender;
using test::in_time;
using test::Pair;
namespace wire = objects::wire;

constexpr Account kGood{{1, 2, 3, 4}, {1, 2, 3, 4}}, kBad{{666, 2, 3, 4}, {1, 2, 3, 4}};

Config receiving(bool is_hostile) {
    Config config = test::small_config();
    config.objects.hostile = is_hostile;
    return config;
}

// It has borrowed a slot for a graph of one account.
class Attacker {
  public:
    explicit Attacker(Pair& pair)
        : pair_(pair), peer_(*pair.sender), source_(pair.sender_context.arena().make<Account>()) {
        EXPECT_EQ(peer_.layout<Account>(), Errc::ok);
        EXPECT_EQ(peer_.begin<Account>(1), Errc::ok);
        EXPECT_EQ(peer_.need(1, 1), Errc::ok);
        std::vector<RemoteExtent> lent;
        for (const Deadline deadline = in_time(); lent.empty() && !deadline.passed();) {
            (void)readable(*pair_.receiver);
            lent = peer_.lent();
        }
        EXPECT_EQ(lent.size(), 1u);
        if (!lent.empty()) slot_ = lent[0];
    }
    // Whether it may or not. Returns when the receiver's memory has it.
    void write(const Account& account) {
        *source_ = account;
        std::size_t written = 0;
        EXPECT_EQ(pair_.sender->try_write(reinterpret_cast<const std::byte*>(source_),
                                          sizeof account, slot_.address, slot_.remote_key, written),
                  Errc::ok);
        EXPECT_EQ(written, sizeof account);
        Errc code = Errc::would_block;
        for (const Deadline deadline = in_time();
             (code = pair_.sender->try_flush()) == Errc::would_block && !deadline.passed();)
            (void)pair_.sender->progress();
        EXPECT_EQ(code, Errc::ok) << "a device stops it";
    }
    // The graph is whole.
    void tell() {
        wire::Fragment head{};
        head.id = 1;
        head.cursor = sizeof(Account);
        head.steps = 0;
        head.references = 1;
        head.bindings = 1;
        head.flags = wire::kLast;
        EXPECT_EQ(peer_.fragment(head, wire::bytes_of(wire::Binding{0, 0, 0, 1})), Errc::ok);
    }

  private:
    Pair& pair_;
    HandMadeSender peer_;
    Account* source_;
    RemoteExtent slot_{};
};

enum class Moment { behind_the_fragment, in_the_check, behind_the_receive };

// The first amount of what was handed out; the account was good when it was told.
std::uint64_t first_amount(bool is_hostile, Moment moment) {
    Pair pair(test::small_config(), receiving(is_hostile));
    Attacker attacker(pair);
    attacker.write(kGood);
    attacker.tell();
    for (const Deadline deadline = in_time(); !readable(*pair.receiver);)
        if (deadline.passed()) return ADD_FAILURE() << "it does not come", 0;
    if (moment == Moment::behind_the_fragment) attacker.write(kBad);
    if (moment == Moment::in_the_check) at_check = [&] { attacker.write(kBad); };
    const auto got = receive<Account>(*pair.receiver, {in_time()});
    at_check = nullptr;
    if (moment == Moment::behind_the_receive) attacker.write(kBad);
    return got->amounts[0];
}

TEST(Hostile, a_slot_that_is_written_behind_its_fragment_changes_nothing) {
    for (const Moment moment :
         {Moment::behind_the_fragment, Moment::in_the_check, Moment::behind_the_receive})
        EXPECT_EQ(first_amount(true, moment), 1u) << static_cast<int>(moment);
}

// As it is trusted not to: so the writes above are what a peer can do.
TEST(Hostile, a_peer_that_is_trusted_can_change_what_it_has_sent) {
    EXPECT_EQ(test::error_code_of([] { first_amount(false, Moment::behind_the_fragment); }),
              Errc::corrupt_message);
    EXPECT_EQ(first_amount(false, Moment::behind_the_receive), 666u);
}

}  // namespace
}  // namespace verbatim::hostile
